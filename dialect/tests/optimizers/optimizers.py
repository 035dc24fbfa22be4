"""Optimizers, clips and loss scaling in NumPy, from the papers' formulas, to check Raddle's reference semantics.

Reads a JSON list of trials from the standard input, computes every step of each from its start, and compares with the results
in it. Prints one line per difference and one with the number of values compared; exits 1 if there are differences.

Sources: Kingma and Ba, "Adam", ICLR 2015 (adam, adamax); Loshchilov and Hutter, "Decoupled weight decay", ICLR 2019 (adamw);
You et al., "Large batch optimization for deep learning", ICLR 2020, algorithm 2 (lamb); You, Gitman and Ginsburg, "Large batch
training of convolutional networks", 2017, algorithm 1 (lars_momentum); Lin et al., "Deep gradient compression", ICLR 2018,
section 3 (dgc_momentum); Duchi, Hazan and Singer, "Adaptive subgradient methods", JMLR 2011 (decayed_adagrad, whose sum decays
in Paddle); Sutskever et al., "On the importance of initialization and momentum", ICML 2013 (momentum); Pascanu, Mikolov and
Bengio, "On the difficulty of training recurrent neural networks", ICML 2013, algorithm 1 (clipping by norm); Micikevicius et
al., "Mixed precision training", ICLR 2018, section 3.2 (loss scaling).
"""

import json
import sys

import numpy as np

LIMIT = 1e-11


def norm(x):
    return np.sqrt(np.dot(x.ravel(), x.ravel()))


def start(s):
    """The parameter that is computed with."""
    return s["master"] if "master" in s else s["param"]


def finish(s, new, **state):
    """The state after a step."""
    s = dict(s, param=new, **state)
    if "master" in s:
        s["master"] = new
    return s


def sgd(s, g, a):
    return finish(s, start(s) - s["lr"] * g)


def momentum(s, g, a):
    p = start(s)
    g = g * a["rescale_grad"] + a["l2_decay"] * p
    v = a["mu"] * s["velocity"] + g
    ahead = g + a["mu"] * v if a["use_nesterov"] else v
    return finish(s, p - s["lr"] * ahead, velocity=v)


def dgc_momentum(s, g, a):
    g = g / s["nranks"]
    if int(s["current_step"][0]) < int(a["rampup_begin_step"]):
        s = momentum(s, g, a)
    else:
        s = sgd(s, g, a)
    return dict(s, grad=g)


def lars_momentum(s, g, a):
    p = start(s)
    g = g * a["rescale_grad"]
    decay = a["lars_weight_decay"]
    rate = s["lr"]
    if decay > 0 and norm(p) > 0 and norm(g) > 0:
        rate = rate * (a["lars_coeff"] * norm(p)) / (norm(g) + decay * norm(p) + a["epsilon"])
    v = a["mu"] * s["velocity"] + rate * (g + decay * p)
    return finish(s, p - v, velocity=v)


def decayed_adagrad(s, g, a):
    m = a["decay"] * s["moment"] + (1 - a["decay"]) * g**2
    return finish(s, start(s) - s["lr"] * g / (np.sqrt(m) + a["epsilon"]), moment=m)


def bias_corrected(s, g, a):
    m = a["beta1"] * s["moment1"] + (1 - a["beta1"]) * g
    v = a["beta2"] * s["moment2"] + (1 - a["beta2"]) * g**2
    state = dict(
        moment1=m,
        moment2=v,
        beta1_pow=s["beta1_pow"] * a["beta1"],
        beta2_pow=s["beta2_pow"] * a["beta2"],
    )
    return m / (1 - s["beta1_pow"]), v / (1 - s["beta2_pow"]), state


def adam(s, g, a):
    if "skip_update" in s and s["skip_update"][0]:
        return s
    mean, square, state = bias_corrected(s, g, a)
    return finish(s, start(s) - s["lr"] * mean / (np.sqrt(square) + a["epsilon"]), **state)


def adamw(s, g, a):
    if "skip_update" in s and s["skip_update"][0]:
        return s
    if not a["with_decay"]:
        return adam(s, g, a)
    lr = s["lr"] * a["lr_ratio"]
    mean, square, state = bias_corrected(s, g, a)
    p = start(s)
    new = p - lr * a["weight_decay"] * p - lr * mean / (np.sqrt(square) + a["epsilon"])
    return finish(s, new, **state)


def adamax(s, g, a):
    m = a["beta1"] * s["moment"] + (1 - a["beta1"]) * g
    u = np.maximum(a["beta2"] * s["inf_norm"] + a["epsilon"], np.abs(g))
    rate = s["lr"] / (1 - s["beta1_pow"])
    return finish(s, start(s) - rate * m / u, moment=m, inf_norm=u)


def lamb(s, g, a):
    if "skip_update" in s and s["skip_update"][0]:
        return s
    p = start(s)
    mean, square, state = bias_corrected(s, g, a)
    r = mean / (np.sqrt(square) + a["epsilon"]) + a["weight_decay"] * p
    trust = 1.0
    if (a["weight_decay"] > 0 or a["always_adapt"]) and norm(p) > 0 and norm(r) > 0:
        trust = norm(p) / norm(r)
    return finish(s, p - s["lr"] * trust * r, **state)


OPTIMIZERS = dict(
    sgd=sgd,
    momentum=momentum,
    merged_momentum=momentum,
    dgc_momentum=dgc_momentum,
    lars_momentum=lars_momentum,
    adam=adam,
    adamw=adamw,
    adamax=adamax,
    lamb=lamb,
    decayed_adagrad=decayed_adagrad,
)


def clip_value(tensors, a):
    return [np.minimum(np.maximum(t, -a["limit"]), a["limit"]) for t in tensors]


def clip_norm(tensors, a):
    return [t * min(1.0, a["limit"] / norm(t)) if norm(t) > 0 else t for t in tensors]


def clip_global_norm(tensors, a):
    whole = norm(np.concatenate([t.ravel() for t in tensors]))
    return [t * min(1.0, a["limit"] / whole) for t in tensors]


CLIPS = dict(value=clip_value, norm=clip_norm, global_norm=clip_global_norm)


def loss_scaling(s, g, a):
    """Unscales, then grows after good steps, and shrinks after bad ones, which leave no gradient."""
    with np.errstate(invalid="ignore"):
        out = g / s["scale"]
    found = not np.isfinite(g).all()
    s = dict(s)
    if found:
        out = np.zeros_like(g)
        s["good"], s["bad"] = s["good"] * 0, s["bad"] + 1
        if s["bad"][0] == a["decr_every_n_nan_or_inf"]:
            s["scale"], s["bad"] = np.maximum(s["scale"] * a["decr_ratio"], 1.0), s["bad"] * 0
    else:
        s["good"], s["bad"] = s["good"] + 1, s["bad"] * 0
        if s["good"][0] == a["incr_every_n_steps"]:
            s["scale"], s["good"] = s["scale"] * a["incr_ratio"], s["good"] * 0
    return dict(s, out=out)


def tensor(values):
    return np.array([float(v) for v in values], dtype=np.float64)


def compare(where, ours, theirs):
    """Differences, each as a line."""
    size = max(1.0, norm(ours))
    apart = norm(ours - tensor(theirs)) / size
    return [] if apart <= LIMIT else [f"{where}: relative difference {apart:.3e}"]


def check(number, trial):
    name, attrs = trial["name"], trial["attrs"]
    found, compared = [], 0
    if name in CLIPS:
        clipped = CLIPS[name]([tensor(t) for t in trial["tensors"]], attrs)
        for i, (ours, theirs) in enumerate(zip(clipped, trial["results"], strict=True)):
            found += compare(f"trial {number}, clip by {name}, tensor {i}", ours, theirs)
            compared += 1
        return found, compared
    step = loss_scaling if name == "loss_scaling" else OPTIMIZERS[name]
    state = {key: tensor(value) for key, value in trial["state"].items()}
    for at, (given, results) in enumerate(zip(trial["given"], trial["results"], strict=True)):
        given = {key: tensor(value) for key, value in given.items()}
        grad = given.pop("grad")
        state = step({**state, **given}, grad, attrs)
        for key, theirs in results.items():
            found += compare(f"trial {number}, {name}, step {at}, {key}", state[key], theirs)
            compared += 1
    return found, compared


def main():
    found, compared = [], 0
    for number, trial in enumerate(json.load(sys.stdin)):
        more, count = check(number, trial)
        found += more
        compared += count
    for line in found:
        print(line)
    print(f"{compared} tensors compared, {len(found)} differ")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())

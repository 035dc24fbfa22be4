//! Plays the calls of all crews against each other: a crew goes on when everyone it meets has come.
//!
//! Which of several crews goes first makes no difference to whether all come through, so one order is enough.

use super::Job;
use super::calls::{Call, Calls, With};
use super::crews::{Crew, Crews};

/// A crew, and which of its calls it is at; past the last one, it has returned.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stand {
    pub crew: Crew,
    pub at: usize,
}

/// Why crews do not come through.
#[derive(PartialEq, Eq, Debug)]
pub enum Clash {
    /// Two of one group, or a sender and its receiver, make calls that do not fit.
    Differ(Stand, Stand),
    /// The first waits for the second, which makes no more calls.
    Returned(Stand, Stand),
    /// Each waits for the next, the last for the first.
    Circle(Vec<Stand>),
}

/// Plays a job. Sends and receives of scheduled jobs are left out.
///
/// # Errors
/// If some crew does not reach its end.
pub fn play(players: &[Option<&Calls>], crews: &Crews, job: Job) -> Result<(), Clash> {
    let mut game = Game {
        players,
        crews,
        scheduled: job.is_scheduled(),
        at: vec![0; crews.len()],
        arrived: vec![Vec::new(); crews.groups()],
        waiting: vec![false; crews.len()],
    };
    let mut going: Vec<Crew> = (0..crews.len()).rev().collect();
    while let Some(crew) = going.pop() {
        game.arrive(crew, &mut going)?;
    }
    match (0..crews.len()).find(|&crew| game.call(crew).is_some()) {
        None => Ok(()),
        Some(crew) => Err(game.circle(crew)),
    }
}

struct Game<'a> {
    players: &'a [Option<&'a Calls>],
    crews: &'a Crews,
    scheduled: bool,
    /// Per crew, its next call.
    at: Vec<usize>,
    /// Per group, the crews that wait for the others.
    arrived: Vec<Vec<Crew>>,
    /// Per crew, whether it is among those. A crew may be looked at twice: the other end of its send takes it along before its turn.
    waiting: Vec<bool>,
}

impl Game<'_> {
    /// The call that a crew is at.
    fn call(&self, crew: Crew) -> Option<Call> {
        let calls = self.players[self.crews.class[crew]]?;
        calls.list.get(self.at[crew]).copied()
    }

    fn stand(&self, crew: Crew) -> Stand {
        let at = self.at[crew];
        Stand { crew, at }
    }

    fn arrive(&mut self, crew: Crew, going: &mut Vec<Crew>) -> Result<(), Clash> {
        let Some(call) = self.call(crew) else {
            return Ok(());
        };
        match call.with {
            With::To(_) | With::From(_) if self.scheduled => {
                self.at[crew] += 1;
                going.push(crew);
                Ok(())
            }
            With::To(_) | With::From(_) => self.meet_peer(crew, call, going),
            With::Group(_) if self.waiting[crew] => Ok(()),
            With::Group(axes) => {
                let group = self.crews.group(axes, crew);
                if let Some(&first) = self.arrived[group].first()
                    && self
                        .call(first)
                        .is_some_and(|c| c.signature != call.signature)
                {
                    return Err(Clash::Differ(self.stand(first), self.stand(crew)));
                }
                self.arrived[group].push(crew);
                self.waiting[crew] = true;
                if self.arrived[group].len() == self.crews.members(group).len() {
                    for member in std::mem::take(&mut self.arrived[group]) {
                        self.at[member] += 1;
                        self.waiting[member] = false;
                        going.push(member);
                    }
                }
                Ok(())
            }
        }
    }

    fn meet_peer(&mut self, crew: Crew, call: Call, going: &mut Vec<Crew>) -> Result<(), Clash> {
        let Some((other, theirs)) = self
            .peer(crew, call)
            .and_then(|other| Some((other, self.call(other)?)))
        else {
            return Ok(());
        };
        if other == crew || self.peer(other, theirs) != Some(crew) {
            return Ok(());
        }
        let fits = match (call.with, theirs.with) {
            (With::To(_), With::From(_)) | (With::From(_), With::To(_)) => {
                call.signature == theirs.signature
            }
            // Both send: neither comes to receive.
            (With::To(_), With::To(_)) | (With::From(_), With::From(_)) => false,
            _ => return Ok(()),
        };
        if !fits {
            return Err(Clash::Differ(self.stand(crew), self.stand(other)));
        }
        for crew in [crew, other] {
            self.at[crew] += 1;
            going.push(crew);
        }
        Ok(())
    }

    /// The crew of a send's or receive's other end.
    fn peer(&self, crew: Crew, call: Call) -> Option<Crew> {
        match call.with {
            With::Group(_) => None,
            With::To(peer) | With::From(peer) => self.crews.peer(peer, crew),
        }
    }

    /// Someone whom a crew that cannot go on waits for.
    fn waits_for(&self, crew: Crew) -> Option<Crew> {
        let call = self.call(crew)?;
        let With::Group(axes) = call.with else {
            return self.peer(crew, call);
        };
        let group = self.crews.group(axes, crew);
        let members = self.crews.members(group).iter().copied();
        let mut absent = members.filter(|m| !self.arrived[group].contains(m));
        // Who has returned explains more than who waits in turn.
        let first = absent.next()?;
        Some(
            std::iter::once(first)
                .chain(absent)
                .find(|&m| self.call(m).is_none())
                .unwrap_or(first),
        )
    }

    /// Follows who waits for whom, from a crew that cannot go on.
    fn circle(&self, crew: Crew) -> Clash {
        let mut path = vec![crew];
        let mut seen = vec![false; self.crews.len()];
        seen[crew] = true;
        loop {
            let last = path[path.len() - 1];
            let Some(next) = self.waits_for(last) else {
                return Clash::Circle(path.into_iter().map(|c| self.stand(c)).collect());
            };
            if self.call(next).is_none() {
                return Clash::Returned(self.stand(last), self.stand(next));
            }
            if seen[next] {
                let start = path.iter().position(|&c| c == next).unwrap_or(0);
                return Clash::Circle(path[start..].iter().map(|&c| self.stand(c)).collect());
            }
            seen[next] = true;
            path.push(next);
        }
    }
}

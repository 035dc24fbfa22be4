//! Sends on their way to receives. A send does not wait: what it gives lies in the channel of its two ranks and its tag, first in, first
//! out, until the receive comes for it.

use std::collections::{HashMap, VecDeque};

use raddle_bundle::{Instr, TensorType};
use raddle_dialect::reference::Tensor;

use super::meet::describe;
use super::rank::fits;
use crate::error::{CallSite, RuntimeError};

/// Sender, receiver and tag.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) struct Channel {
    pub from: usize,
    pub to: usize,
    pub tag: i64,
}

/// A sent tensor.
pub(super) struct Letter<'p> {
    pub instr: &'p Instr,
    pub microbatch: usize,
    pub value: Tensor,
}

impl Letter<'_> {
    fn site(&self, rank: usize) -> CallSite {
        let call = describe(self.instr, Some(std::slice::from_ref(&self.value)));
        CallSite {
            rank,
            call: format!("{call} of micro-batch {}", self.microbatch),
            location: self.instr.location.clone(),
        }
    }
}

/// Everything on its way, and who waits for it.
#[derive(Default)]
pub(super) struct Mail<'p> {
    letters: HashMap<Channel, VecDeque<Letter<'p>>>,
    waiting: HashMap<Channel, usize>,
}

impl<'p> Mail<'p> {
    /// Sends; gives the rank that waited for it.
    pub fn post(&mut self, channel: Channel, letter: Letter<'p>) -> Option<usize> {
        self.letters.entry(channel).or_default().push_back(letter);
        self.waiting.remove(&channel)
    }

    /// Receives; without a letter the receiver is remembered.
    pub fn take(
        &mut self,
        channel: Channel,
        ty: &TensorType,
        microbatch: usize,
        site: impl FnOnce() -> CallSite,
    ) -> Result<Option<Tensor>, RuntimeError> {
        let letters = self.letters.get_mut(&channel);
        let Some(letter) = letters.and_then(VecDeque::pop_front) else {
            self.waiting.insert(channel, channel.to);
            return Ok(None);
        };
        // A channel keeps its order, so a receive of another micro-batch would get the wrong numbers without a word.
        if fits(ty, &letter.value) && letter.microbatch == microbatch {
            return Ok(Some(letter.value));
        }
        let mut receiver = site();
        receiver.call += &format!(" of micro-batch {microbatch}");
        Err(RuntimeError::Mismatch {
            sites: vec![letter.site(channel.from), receiver],
        })
    }

    /// A letter that nobody has come for; between these ranks if there is one, else any.
    pub fn undelivered(&self, between: Option<(usize, usize)>) -> Option<CallSite> {
        let left = self
            .letters
            .iter()
            .filter(|(_, letters)| !letters.is_empty());
        let left = left.filter(|(c, _)| between.is_none_or(|b| b == (c.from, c.to)));
        let (channel, letters) = left.min_by_key(|(c, _)| (c.from, c.to, c.tag))?;
        Some(letters.front()?.site(channel.from))
    }
}

//! Objects of one kind, named by numbers. A number that was freed is given again.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Free,
    Kept,
    Marked,
}

/// Objects of one kind.
#[derive(Debug)]
pub(super) struct Arena<T> {
    objects: Vec<T>,
    states: Vec<State>,
    free: Vec<u32>,
}

impl<T> Default for Arena<T> {
    fn default() -> Arena<T> {
        Arena { objects: Vec::new(), states: Vec::new(), free: Vec::new() }
    }
}

impl<T: Default> Arena<T> {
    /// Keeps an object. `None`: there are no more numbers.
    pub(super) fn add(&mut self, object: T) -> Option<u32> {
        if let Some(id) = self.free.pop() {
            let place = id as usize;
            *self.objects.get_mut(place)? = object;
            *self.states.get_mut(place)? = State::Kept;
            return Some(id);
        }
        let id = u32::try_from(self.objects.len()).ok()?;
        self.objects.push(object);
        self.states.push(State::Kept);
        Some(id)
    }

    /// The object of a number that this arena gave.
    #[inline]
    pub(super) fn get(&self, id: u32) -> &T {
        &self.objects[id as usize]
    }

    #[inline]
    pub(super) fn get_mut(&mut self, id: u32) -> &mut T {
        &mut self.objects[id as usize]
    }

    /// Whether this was the first mark.
    pub(super) fn mark(&mut self, id: u32) -> bool {
        match self.states.get_mut(id as usize) {
            Some(state) if *state == State::Kept => {
                *state = State::Marked;
                true
            }
            _ => false,
        }
    }

    /// Frees what has no mark, and takes the marks away.
    pub(super) fn sweep(&mut self, mut freed: impl FnMut(u32, &T)) -> u64 {
        for (place, (object, state)) in self.objects.iter_mut().zip(&mut self.states).enumerate() {
            match *state {
                State::Free => {}
                State::Marked => *state = State::Kept,
                State::Kept => {
                    let id = place as u32;
                    freed(id, object);
                    *object = T::default();
                    *state = State::Free;
                    self.free.push(id);
                }
            }
        }
        self.objects.len() as u64
    }
}

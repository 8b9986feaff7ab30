//! A format of `struct`, part by part.

use super::fault;

/// Bytes that an integer may have.
const INTEGER_MAX: usize = 32;

/// The alignment that `!` alone says.
const NATURAL: usize = 8;

/// A part of a format.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Part {
    /// Its letter.
    pub(super) option: u8,
    /// Whether it says only how others are laid out.
    pub(super) is_control: bool,
    /// Bytes between what came before and it.
    pub(super) padding: usize,
    /// Its bytes; 0 if they are as many as a text has.
    pub(super) size: usize,
    /// Whether the lowest byte is the first.
    pub(super) is_little: bool,
}

/// Reads a format. A byte 0 ends it.
pub(super) struct Layout<'a> {
    rest: &'a [u8],
    is_little: bool,
    alignment: usize,
}

impl<'a> Layout<'a> {
    pub(super) fn new(format: &'a [u8]) -> Self {
        let rest = format.split(|byte| *byte == 0).next().unwrap_or_default();
        Self { rest, is_little: true, alignment: 1 }
    }

    /// The next part, which stands behind so many bytes. What says how others are laid out is to be given to [`Layout::control`].
    ///
    /// # Errors
    /// The size is wrong, in the words of the module.
    pub(super) fn next(&mut self, place: usize) -> Result<Option<Part>, String> {
        let Some((option, rest)) = self.rest.split_first() else { return Ok(None) };
        self.rest = rest;
        let size = self.size(*option)?;
        let padding = self.padding(*option, size, place);
        let is_control = !b"bBhHlLTiIfdxcs".contains(option);
        Ok(Some(Part { option: *option, is_control, padding, size, is_little: self.is_little }))
    }

    /// Lays out what follows as `option` says. `function` is for errors.
    ///
    /// # Errors
    /// It says nothing, in the words of the module.
    pub(super) fn control(&mut self, option: u8, function: &str) -> Result<(), String> {
        match option {
            b' ' => {}
            b'>' => self.is_little = false,
            b'<' => self.is_little = true,
            b'!' => {
                let alignment = self.number(NATURAL)?;
                if !alignment.is_power_of_two() {
                    return Err(format!("alignment {alignment} is not a power of 2"));
                }
                self.alignment = alignment;
            }
            _ => {
                let what = format!("invalid format option '{}'", char::from(option));
                return Err(fault(function, 1, &what));
            }
        }
        Ok(())
    }

    fn size(&mut self, option: u8) -> Result<usize, String> {
        Ok(match option {
            b'b' | b'B' | b'x' => 1,
            b'h' | b'H' => 2,
            b'f' => 4,
            b'l' | b'L' | b'T' | b'd' => 8,
            b'c' => self.number(1)?,
            b'i' | b'I' => match self.number(4)? {
                size if size > INTEGER_MAX => {
                    return Err(format!("integral size {size} is larger than limit of {INTEGER_MAX}"));
                }
                size => size,
            },
            _ => 0,
        })
    }

    /// The digits that are next; `otherwise`, if there are none. At most 2^31 - 1.
    fn number(&mut self, otherwise: usize) -> Result<usize, String> {
        let digits = self.rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        if digits == 0 {
            return Ok(otherwise);
        }
        let (digits, rest) = self.rest.split_at(digits);
        self.rest = rest;
        let number = digits.iter().try_fold(0i32, |number, digit| {
            number.checked_mul(10)?.checked_add(i32::from(digit.saturating_sub(b'0')))
        });
        number
            .and_then(|number| usize::try_from(number).ok())
            .ok_or_else(|| "integral size overflow".to_owned())
    }

    /// For a size that is no power of two, it is what the bits make of it.
    fn padding(&self, option: u8, size: usize, place: usize) -> usize {
        if size == 0 || option == b'c' {
            return 0;
        }
        let size = size.min(self.alignment);
        let mask = size.saturating_sub(1);
        size.wrapping_sub(place & mask) & mask
    }
}

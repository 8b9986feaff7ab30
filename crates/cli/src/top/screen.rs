//! A terminal that is drawn on. When it is dropped the terminal is as before: also after an error or a panic.

use std::io::{self, Stdout, Write};
use std::thread;
use std::time::Duration;

use crossterm::cursor::{Hide, MoveTo, Show};
use crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use crossterm::style::{Attribute, Print, SetAttribute};
use crossterm::terminal::{
    Clear, ClearType, EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode, size,
};
use crossterm::{execute, queue};
use tokio::sync::mpsc::{Receiver, channel};

use super::page::{Kind, Line, Room};

/// How often it is seen whether anybody still wants to hear of keys.
const LOOK: Duration = Duration::from_millis(100);

/// What the user does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wish {
    Quit,
    /// The terminal has another size.
    Draw,
}

/// See the module's text.
pub(crate) struct Screen {
    out: Stdout,
}

impl Screen {
    /// Takes the terminal. What the user does comes on the channel until its end is dropped.
    ///
    /// # Errors
    /// It is no terminal that can be drawn on.
    pub(crate) fn enter() -> io::Result<(Screen, Receiver<Wish>)> {
        enable_raw_mode()?;
        // From here on it is left as it was.
        let mut screen = Screen { out: io::stdout() };
        execute!(screen.out, EnterAlternateScreen, Hide)?;
        let (send, wishes) = channel(16);
        thread::spawn(move || {
            while !send.is_closed() {
                let wish = match event::poll(LOOK) {
                    Ok(true) => event::read().ok().and_then(|event| wish(&event)),
                    Ok(false) => None,
                    // Nobody can press a key any more.
                    Err(_) => Some(Wish::Quit),
                };
                if wish.is_some_and(|wish| send.blocking_send(wish).is_err()) {
                    return;
                }
            }
        });
        Ok((screen, wishes))
    }

    /// How much fits.
    pub(crate) fn room(&self) -> Room {
        let (width, height) = size().unwrap_or((80, 24));
        Room { width: width.into(), height: height.into() }
    }

    /// Shows these lines, which fit.
    ///
    /// # Errors
    /// The terminal is gone.
    pub(crate) fn draw(&mut self, lines: &[Line]) -> io::Result<()> {
        for (place, Line { kind, text }) in (0..).zip(lines) {
            let attribute = match kind {
                Kind::Title => Attribute::Bold,
                Kind::Head => Attribute::Reverse,
                Kind::Row => Attribute::Reset,
            };
            queue!(self.out, MoveTo(0, place), SetAttribute(attribute), Print(text))?;
            queue!(self.out, SetAttribute(Attribute::Reset), Clear(ClearType::UntilNewLine))?;
        }
        let below = u16::try_from(lines.len()).unwrap_or(u16::MAX);
        if usize::from(below) < self.room().height {
            queue!(self.out, MoveTo(0, below), Clear(ClearType::FromCursorDown))?;
        }
        self.out.flush()
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // Where it fails nobody looks any more.
        let _ = execute!(self.out, LeaveAlternateScreen, Show);
        let _ = disable_raw_mode();
    }
}

/// What an event of the terminal means, if anything.
fn wish(event: &Event) -> Option<Wish> {
    match event {
        Event::Resize(..) => Some(Wish::Draw),
        Event::Key(KeyEvent { code, modifiers, kind: KeyEventKind::Press, .. }) => {
            let has_control = modifiers.contains(KeyModifiers::CONTROL);
            match code {
                KeyCode::Char('q' | 'Q') if !has_control => Some(Wish::Quit),
                // In raw mode it is a key like any other.
                KeyCode::Char('c') if has_control => Some(Wish::Quit),
                _ => None,
            }
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn q_and_control_c_quit() {
        let key = |code, modifiers| wish(&Event::Key(KeyEvent::new(code, modifiers)));
        assert_eq!(key(KeyCode::Char('q'), KeyModifiers::NONE), Some(Wish::Quit));
        assert_eq!(key(KeyCode::Char('Q'), KeyModifiers::SHIFT), Some(Wish::Quit));
        assert_eq!(key(KeyCode::Char('c'), KeyModifiers::CONTROL), Some(Wish::Quit));
        assert_eq!(key(KeyCode::Char('c'), KeyModifiers::NONE), None);
        assert_eq!(key(KeyCode::Enter, KeyModifiers::NONE), None);
        assert_eq!(wish(&Event::Resize(1, 1)), Some(Wish::Draw));
    }
}

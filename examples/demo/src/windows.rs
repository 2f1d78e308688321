//! The window manager.

use super::interfaces::{Frame, WindowManager, WindowPlace, WmError};
use super::screen::Screen;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Implements [`WindowManager`] over one [`Screen`].
#[derive(Debug)]
pub struct Windows {
    screen: Mutex<Screen>,
}

impl Windows {
    /// A manager of an empty screen of that many cells.
    pub fn new(rows: u16, columns: u16) -> Self {
        Self { screen: Mutex::new(Screen::new(rows, columns)) }
    }

    fn locked(&self) -> MutexGuard<'_, Screen> {
        self.screen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl WindowManager for Windows {
    fn open(&self, title: &str, place: WindowPlace) -> Result<u32, WmError> {
        self.locked().open(title, place)
    }

    fn draw(&self, window: u32, row: u16, text: &str) -> Result<(), WmError> {
        self.locked().draw(window, row, text)
    }

    fn compose(&self) -> Result<Frame, WmError> {
        Ok(self.locked().compose())
    }

    fn screen(&self) -> Result<Vec<String>, WmError> {
        Ok(self.locked().shown())
    }
}

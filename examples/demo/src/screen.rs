//! Windows of text composed to one screen.

use super::interfaces::{Frame, WindowPlace, WmError};

/// The character where there is no window.
const BACKGROUND: char = '·';

/// A screen of cells and the windows on it.
#[derive(Debug)]
pub struct Screen {
    rows: usize,
    columns: usize,
    cells: Vec<char>,
    checksums: Vec<u64>,
    dirty: Vec<bool>,
    windows: Vec<Window>,
    front: Vec<usize>,
    frames: u32,
}

#[derive(Debug)]
struct Window {
    place: WindowPlace,
    lines: Vec<Vec<char>>,
}

impl Screen {
    /// An empty screen.
    pub fn new(rows: u16, columns: u16) -> Self {
        let (rows, columns) = (usize::from(rows), usize::from(columns));
        Self {
            rows,
            columns,
            cells: vec![BACKGROUND; rows * columns],
            checksums: vec![0; rows],
            dirty: vec![true; rows],
            windows: Vec::new(),
            front: Vec::new(),
            frames: 0,
        }
    }

    /// Puts a framed window on the screen and returns its number.
    ///
    /// # Errors
    /// [`WmError::Outside`] if it does not fit on the screen, or is too small for a frame.
    pub fn open(&mut self, title: &str, place: WindowPlace) -> Result<u32, WmError> {
        let bottom = usize::from(place.row) + usize::from(place.rows);
        let right = usize::from(place.column) + usize::from(place.columns);
        if place.rows < 3 || place.columns < 8 || bottom > self.rows || right > self.columns {
            let (rows, columns) = (self.rows, self.columns);
            return Err(WmError::Outside(format!("{place:?} isn't a window on {rows} x {columns} cells")));
        }
        let inside = usize::from(place.columns) - 2;
        let line = |left: char, title: &str, right: char| {
            let middle = title.chars().chain(std::iter::repeat('─')).take(inside);
            std::iter::once(left).chain(middle).chain(std::iter::once(right)).collect::<Vec<char>>()
        };
        let mut lines = vec![line('┌', &format!("─ {title} "), '┐')];
        for _ in 0..place.rows - 2 {
            lines.push(std::iter::once('│').chain(vec![' '; inside]).chain(std::iter::once('│')).collect());
        }
        lines.push(line('└', "", '┘'));
        self.dirty[usize::from(place.row)..bottom].fill(true);
        self.windows.push(Window { place, lines });
        self.front = (0..self.windows.len()).collect();
        self.front.sort_by_key(|&window| self.windows[window].place.layer);
        Ok(self.windows.len() as u32 - 1)
    }

    /// Replaces row `row` inside a window by `text`, cut or padded to the window's width.
    ///
    /// # Errors
    /// [`WmError::NoWindow`]; [`WmError::Outside`] if the window has no such row.
    pub fn draw(&mut self, window: u32, row: u16, text: &str) -> Result<(), WmError> {
        let found = self.windows.get_mut(window as usize).ok_or(WmError::NoWindow(window))?;
        if row >= found.place.rows - 2 {
            return Err(WmError::Outside(format!(
                "window {window} has {} rows, not row {row}",
                found.place.rows - 2
            )));
        }
        let line = &mut found.lines[usize::from(row) + 1];
        let inside = line.len() - 2;
        let text = text.chars().map(|c| if c.is_control() { ' ' } else { c }).chain(std::iter::repeat(' '));
        let mut changed = false;
        for (cell, new) in line[1..=inside].iter_mut().zip(text) {
            changed |= *cell != new;
            *cell = new;
        }
        self.dirty[usize::from(found.place.row) + usize::from(row) + 1] |= changed;
        Ok(())
    }

    /// Composes the rows that have changed, back to front.
    pub fn compose(&mut self) -> Frame {
        let mut dirty = 0;
        for row in 0..self.rows {
            if std::mem::take(&mut self.dirty[row]) {
                dirty += 1;
                let cells = &mut self.cells[row * self.columns..(row + 1) * self.columns];
                cells.fill(BACKGROUND);
                for window in self.front.iter().map(|&window| &self.windows[window]) {
                    let line =
                        row.checked_sub(usize::from(window.place.row)).and_then(|row| window.lines.get(row));
                    if let Some(line) = line {
                        let column = usize::from(window.place.column);
                        cells[column..column + line.len()].copy_from_slice(line);
                    }
                }
                self.checksums[row] = checksum(cells.iter().map(|&cell| u64::from(cell)));
            }
        }
        self.frames += 1;
        Frame { number: self.frames, dirty, checksum: checksum(self.checksums.iter().copied()) }
    }

    /// The screen as it was last composed.
    pub fn shown(&self) -> Vec<String> {
        self.cells.chunks(self.columns.max(1)).map(|row| row.iter().collect()).collect()
    }
}

/// FNV-1a, a word at a time.
fn checksum(words: impl Iterator<Item = u64>) -> u64 {
    words.fold(0xcbf2_9ce4_8422_2325, |sum, word| (sum ^ word).wrapping_mul(0x0000_0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;

    const BACK: WindowPlace = WindowPlace { row: 0, column: 0, rows: 3, columns: 10, layer: 0 };
    const FRONT: WindowPlace = WindowPlace { row: 1, column: 4, rows: 3, columns: 8, layer: 1 };

    #[test]
    fn the_front_window_hides_the_other_whichever_opened_first() {
        let mut shown = Vec::new();
        for order in [[BACK, FRONT], [FRONT, BACK]] {
            let mut screen = Screen::new(4, 12);
            for place in order {
                let window = screen.open(if place == BACK { "T1" } else { "T2" }, place).unwrap();
                screen.draw(window, 0, if place == BACK { "back\twards" } else { "front" }).unwrap();
            }
            let frame = screen.compose();
            shown.push((screen.shown(), frame));
        }
        assert_eq!(shown[0], shown[1]);
        let expected = ["┌─ T1 ───┐··", "│bac┌─ T2 ─┐", "└───│front │", "····└──────┘"];
        assert_eq!(shown[0].0, expected);
    }

    #[test]
    fn only_changed_rows_are_composed() {
        let mut screen = Screen::new(4, 12);
        let window = screen.open("T1", BACK).unwrap();
        let first = screen.compose();
        assert_eq!((first.number, first.dirty), (1, 4));
        let same = screen.compose();
        assert_eq!((same.number, same.dirty, same.checksum), (2, 0, first.checksum));
        screen.draw(window, 0, "x").unwrap();
        screen.draw(window, 0, "x").unwrap();
        let other = screen.compose();
        assert_eq!(other.dirty, 1);
        assert_ne!(other.checksum, first.checksum);
        screen.draw(window, 0, "").unwrap();
        assert_eq!(screen.compose().checksum, first.checksum);
    }

    #[test]
    fn nothing_is_drawn_outside() {
        let mut screen = Screen::new(4, 12);
        assert!(matches!(screen.open("", WindowPlace { row: 2, ..FRONT }), Err(WmError::Outside(_))));
        assert!(matches!(
            screen.open("", WindowPlace { columns: u16::MAX, ..FRONT }),
            Err(WmError::Outside(_))
        ));
        assert!(matches!(screen.open("", WindowPlace { rows: 2, ..FRONT }), Err(WmError::Outside(_))));
        assert_eq!(screen.draw(0, 0, ""), Err(WmError::NoWindow(0)));
        let window = screen.open("a title that is too long", FRONT).unwrap();
        assert!(matches!(screen.draw(window, 1, ""), Err(WmError::Outside(_))));
    }
}

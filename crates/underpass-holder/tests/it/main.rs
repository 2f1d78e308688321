//! Devices and their drivers, by name.

mod drivers;

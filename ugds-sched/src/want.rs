//! What is asked of the scheduler: a request, described by what matters for its order.

/// Which front door a request came through. Each may have queues of its own ([`Ranges`](crate::Ranges)).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Class {
    /// Somebody waits for it: a blocking call, or a stream.
    #[default]
    Sync,
    /// One of many that are collected later.
    Batch,
    /// Flush, deallocate and the like, which move no data.
    Control,
}

/// Which way the data goes, from the caller's point of view.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Direction {
    /// From the device into memory.
    Read,
    /// From memory to the device.
    Write,
}

/// How much a request matters beside others. The smaller goes first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Level {
    /// Never held back, whatever its size.
    Urgent,
    /// Held back only when it is a large write.
    #[default]
    Normal,
    /// Always held back in favour of the others.
    Background,
}

/// What a device, a stream or a request is to be good at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Mode {
    /// Small reads: background bytes are capped all the time, completions are polled.
    Latency,
    /// Bytes a second: nothing is capped, completions come by interrupt.
    Throughput,
    /// Levels: the tightest cap on background bytes that still fills the device's pipe.
    Priority,
    /// Capped while small reads are about, else not much; polled or by interrupt, by size and load.
    #[default]
    Adaptive,
}

/// What was chosen for a device, a stream or a request. What is left open is chosen by the next wider one.
///
/// # Examples
///
/// ```
/// use ugds_sched::{Level, Mode, Settings};
///
/// let device = Settings::new().mode(Mode::Throughput);
/// let stream = Settings::new().level(Level::Background);
/// let request = Settings::new().mode(Mode::Latency);
/// let chosen = request.over(stream).over(device);
/// assert_eq!((chosen.chosen_mode(), chosen.chosen_level()), (Mode::Latency, Level::Background));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    mode: Option<Mode>,
    level: Option<Level>,
}

impl Settings {
    /// Leaves everything open.
    #[must_use]
    pub const fn new() -> Self {
        Self { mode: None, level: None }
    }

    /// Chooses a mode.
    #[must_use]
    pub const fn mode(self, mode: Mode) -> Self {
        Self { mode: Some(mode), ..self }
    }

    /// Chooses a level.
    #[must_use]
    pub const fn level(self, level: Level) -> Self {
        Self { level: Some(level), ..self }
    }

    /// These settings; what they leave open is taken from `wider`.
    #[inline]
    #[must_use]
    pub fn over(self, wider: Self) -> Self {
        Self { mode: self.mode.or(wider.mode), level: self.level.or(wider.level) }
    }

    /// The mode, or the default one.
    #[inline]
    #[must_use]
    pub fn chosen_mode(self) -> Mode {
        self.mode.unwrap_or_default()
    }

    /// The level, or the default one.
    #[inline]
    #[must_use]
    pub fn chosen_level(self) -> Level {
        self.level.unwrap_or_default()
    }
}

/// A request, as the scheduler sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Want {
    /// Its front door.
    pub class: Class,
    /// Which way its data goes.
    pub direction: Direction,
    /// How much it matters.
    pub level: Level,
    /// What it is to be good at.
    pub mode: Mode,
    /// The bytes of the whole request.
    pub request_bytes: u64,
}

impl Want {
    /// A read of `request_bytes` with everything else as the defaults have it.
    #[inline]
    #[must_use]
    pub const fn read(request_bytes: u64) -> Self {
        Self::new(Direction::Read, request_bytes)
    }

    /// A write of `request_bytes` with everything else as the defaults have it.
    #[inline]
    #[must_use]
    pub const fn write(request_bytes: u64) -> Self {
        Self::new(Direction::Write, request_bytes)
    }

    const fn new(direction: Direction, request_bytes: u64) -> Self {
        let (class, level, mode) = (Class::Sync, Level::Normal, Mode::Adaptive);
        Self { class, direction, level, mode, request_bytes }
    }

    /// The same through another front door.
    #[inline]
    #[must_use]
    pub const fn class(self, class: Class) -> Self {
        Self { class, ..self }
    }

    /// The same with what `settings` say.
    #[inline]
    #[must_use]
    pub fn settings(self, settings: Settings) -> Self {
        Self { mode: settings.chosen_mode(), level: settings.chosen_level(), ..self }
    }

    /// Whether it is held back in favour of others, where a request up to `small_bytes` is small.
    #[inline]
    pub(crate) fn is_background(&self, small_bytes: u32) -> bool {
        match self.level {
            Level::Urgent => false,
            Level::Normal => {
                self.request_bytes > u64::from(small_bytes) && matches!(self.direction, Direction::Write)
            }
            Level::Background => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_large_writes_and_declared_ones_are_background() {
        let small = 16 << 10;
        assert!(!Want::read(1 << 30).is_background(small));
        assert!(!Want::write(16 << 10).is_background(small));
        assert!(Want::write((16 << 10) + 1).is_background(small));
        let urgent = Settings::new().level(Level::Urgent);
        assert!(!Want::write(1 << 30).settings(urgent).is_background(small));
        let background = Settings::new().level(Level::Background);
        assert!(Want::read(512).settings(background).is_background(small));
    }

    #[test]
    fn the_narrower_setting_wins() {
        let device = Settings::new().mode(Mode::Throughput).level(Level::Urgent);
        assert_eq!(Settings::new().over(device), device);
        assert_eq!(Settings::new().mode(Mode::Latency).over(device).chosen_mode(), Mode::Latency);
        assert_eq!(Settings::new().chosen_mode(), Mode::Adaptive);
    }
}

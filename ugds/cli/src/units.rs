//! Numbers for people: three digits and a unit, so that columns of them are narrow.

/// A time in microseconds.
pub(crate) fn time(us: f64) -> String {
    if us < KILO {
        format!("{}us", three_digits(us))
    } else if us < KILO * 1e3 {
        format!("{}ms", three_digits(us / 1e3))
    } else {
        format!("{}s", three_digits(us / 1e6))
    }
}

/// How many there are of something, with powers of 1000.
pub(crate) fn count(number: f64) -> String {
    if number < KILO {
        format!("{number:.0}")
    } else if number < KILO * 1e3 {
        format!("{}k", three_digits(number / 1e3))
    } else if number < KILO * 1e6 {
        format!("{}M", three_digits(number / 1e6))
    } else {
        format!("{}G", three_digits(number / 1e9))
    }
}

/// A number from 0 on, up to four digits before the point.
pub(crate) fn three_digits(number: f64) -> String {
    // What would be rounded to 10 or 100 counts as such.
    let decimals = match number {
        ..9.995 => 2,
        ..99.95 => 1,
        _ => 0,
    };
    format!("{number:.decimals$}")
}

/// From here on, three digits are rounded to 1000.
const KILO: f64 = 999.5;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_three_digits_and_the_unit_that_fits() {
        for (us, text) in [
            (0.0, "0.00us"),
            (0.951, "0.95us"),
            (9.994, "9.99us"),
            (9.996, "10.0us"),
            (99.96, "100us"),
            (999.4, "999us"),
            (999.6, "1.00ms"),
            (10_600.0, "10.6ms"),
            (999_600.0, "1.00s"),
            (12_345_678.9, "12.3s"),
        ] {
            assert_eq!(time(us), text);
        }
    }

    #[test]
    fn counts_have_three_digits() {
        for (number, text) in [
            (0.0, "0"),
            (37.0, "37"),
            (999.0, "999"),
            (999.9, "1.00k"),
            (136_400.0, "136k"),
            (2_345_678.0, "2.35M"),
            (1e10, "10.0G"),
        ] {
            assert_eq!(count(number), text);
        }
    }
}

//! The options after `?`: taken apart once, then asked for by name.

use nvme_proto::Nsid;

use super::{Bytes, UriError};

/// Options that were given, each known to the scheme and given once.
pub(super) struct Options<'a> {
    given: Vec<(&'a str, &'a str)>,
}

impl<'a> Options<'a> {
    /// Takes `query` apart. `accepted` are the options that `scheme` has.
    pub(super) fn parse(
        scheme: &'static str,
        accepted: &[&'static str],
        query: Option<&'a str>,
    ) -> Result<Self, UriError> {
        let mut given: Vec<(&str, &str)> = Vec::new();
        for option in query.into_iter().flat_map(|query| query.split('&')) {
            let (name, value) = name_and_value(option)?;
            if !accepted.contains(&name) {
                return Err(unknown(scheme, name, accepted));
            }
            if given.iter().any(|(other, _)| *other == name) {
                return Err(UriError::RepeatedOption { name: name.to_owned() });
            }
            given.push((name, value));
        }
        Ok(Self { given })
    }

    /// A number from `min` to `max`.
    pub(super) fn number<T>(&self, name: &'static str, default: T, min: T, max: T) -> Result<T, UriError>
    where
        T: Copy + PartialOrd + std::str::FromStr + std::fmt::Display,
    {
        let Some(value) = self.value(name) else { return Ok(default) };
        let number = digits_only(value).and_then(|digits| digits.parse::<T>().ok());
        match number.filter(|number| (min..=max).contains(number)) {
            Some(number) => Ok(number),
            // Only digits that are refused: the number is too large, or it is below a `min` of 1.
            None if digits_only(value).is_some() && value.bytes().any(|digit| digit != b'0') => {
                Err(too_large(name, value, format!("a number from {min} to {max}")))
            }
            None => Err(bad_value(name, value, format!("a number from {min} to {max}"))),
        }
    }

    /// `0` or `1`.
    pub(super) fn flag(&self, name: &'static str) -> Result<bool, UriError> {
        match self.value(name) {
            None | Some("0") => Ok(false),
            Some("1") => Ok(true),
            Some(value) => Err(bad_value(name, value, "0 or 1")),
        }
    }

    /// A number of bytes.
    pub(super) fn bytes(&self, name: &'static str) -> Result<Option<u64>, UriError> {
        let parse = |value: &str| value.parse::<Bytes>().map_err(|source| UriError::Bytes { name, source });
        self.value(name).map(parse).transpose().map(|bytes| bytes.map(|bytes| bytes.0))
    }

    /// `ns=N`, from 1 to `last`.
    pub(super) fn namespace(&self, last: Nsid) -> Result<Option<Nsid>, UriError> {
        let chosen = self.number("ns", Nsid::NONE.0, 1, Nsid::ALL.0 - 1)?;
        if chosen > last.0 {
            return Err(UriError::NoNamespace { given: chosen, namespaces: last.0 });
        }
        Ok(Some(Nsid(chosen)).filter(|nsid| *nsid != Nsid::NONE))
    }

    /// Whether the option was given.
    pub(super) fn has(&self, name: &str) -> bool {
        self.value(name).is_some()
    }

    /// The text of an option.
    pub(super) fn value(&self, name: &str) -> Option<&'a str> {
        self.given.iter().find(|(given, _)| *given == name).map(|(_, value)| *value)
    }
}

/// The error for a `value` that the option `name` can't have.
pub(super) fn bad_value(
    name: &'static str,
    value: &(impl ToString + ?Sized),
    accepted: impl Into<String>,
) -> UriError {
    UriError::Value { name, value: value.to_string(), accepted: accepted.into() }
}

/// The error for a `value` beyond what the option `name` takes.
pub(super) fn too_large(name: &'static str, value: &str, accepted: impl Into<String>) -> UriError {
    UriError::TooLarge { name, value: value.to_owned(), accepted: accepted.into() }
}

fn name_and_value(option: &str) -> Result<(&str, &str), UriError> {
    match option.split_once('=') {
        Some((name, value)) if !name.is_empty() && !value.is_empty() => match separator_in(value) {
            Some(separator) => Err(UriError::OptionSeparator { given: option.to_owned(), separator }),
            None => Ok((name, value)),
        },
        _ => Err(UriError::OptionForm { given: option.to_owned() }),
    }
}

/// What stands between two options in `value`. No value of an option has such a character.
fn separator_in(value: &str) -> Option<char> {
    let (at, separator) = value.char_indices().find(|(_, character)| ";,?+ ".contains(*character))?;
    value[at..].contains('=').then_some(separator)
}

/// `parse` of the standard library takes a sign, which has no place here.
fn digits_only(value: &str) -> Option<&str> {
    Some(value).filter(|value| value.bytes().all(|byte| byte.is_ascii_digit()))
}

fn unknown(scheme: &'static str, name: &str, accepted: &[&'static str]) -> UriError {
    let near = |option: &str| {
        let shortened = name.len() >= 2 && is_shortened(name, option);
        shortened || distance(option, name) <= 2 && distance(option, name) < option.len()
    };
    // What has all the letters in order was shortened: `sz` is `size`, although `sgl` is as near.
    let key = |option: &&str| (!is_shortened(name, option), distance(option, name));
    let closest = accepted.iter().copied().filter(|option| near(option)).min_by_key(key);
    UriError::UnknownOption {
        scheme,
        name: name.to_owned(),
        accepted: accepted.join(", "),
        closest: closest.map(str::to_owned),
    }
}

/// Whether `name` is `option` without some of its characters.
fn is_shortened(name: &str, option: &str) -> bool {
    let mut rest = option.chars();
    name.chars().all(|character| rest.any(|other| other == character))
}

/// How many characters must be put in, taken out or replaced to make `b` of `a` (Levenshtein).
fn distance(a: &str, b: &str) -> usize {
    let mut row: Vec<usize> = (0..=b.chars().count()).collect();
    for (i, from) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, to) in b.chars().enumerate() {
            let replaced = diagonal + usize::from(from != to);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[b.chars().count()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances() {
        for (a, b, expected) in
            [("", "", 0), ("size", "size", 0), ("seize", "size", 1), ("", "abc", 3), ("lba", "ab", 2)]
        {
            assert_eq!(distance(a, b), expected, "{a} {b}");
            assert_eq!(distance(b, a), expected, "{b} {a}");
        }
    }

    #[test]
    fn far_names_get_no_suggestion() {
        let Err(error) = Options::parse("emu:", &["size", "ns"], Some("colour=1")) else {
            panic!("accepted")
        };
        assert_eq!(error.to_string(), "emu: has no option `colour`; accepted are size, ns");
    }

    #[test]
    fn shortened_names_are_understood() {
        for (name, meant) in [("sz", "size"), ("que", "queues"), ("bandwidth", "bandwidth_mib")] {
            let Err(UriError::UnknownOption { closest, .. }) =
                Options::parse("emu:", super::super::emu::OPTIONS, Some(&format!("{name}=1")))
            else {
                panic!("accepted")
            };
            assert_eq!(closest.as_deref(), Some(meant));
        }
    }
}

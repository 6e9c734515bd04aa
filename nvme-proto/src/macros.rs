//! `open_enum!`: a device's value as a transparent number with named constants, since a device may say anything.

/// Makes an open enum: a newtype over an integer, one constant for each value that has a name, and `Display`.
macro_rules! open_enum {
    (
        $(#[$meta:meta])*
        $name:ident($int:ty) {
            $($(#[$constant_meta:meta])* $constant:ident = $value:literal, $text:literal;)*
        }
    ) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(transparent)]
        pub struct $name(pub $int);

        impl $name {
            $(
                #[doc = concat!("Has the value `", stringify!($value), "`: ", $text, ".")]
                $(#[$constant_meta])*
                pub const $constant: Self = Self($value);
            )*

            /// Every value that has a name here, in the order of the specification's figure.
            pub const NAMED: &'static [Self] = &[$(Self::$constant),*];

            /// The name of this value. `None` for one that this crate does not know.
            #[must_use]
            pub const fn name(self) -> Option<&'static str> {
                match self.0 {
                    $($value => Some($text),)*
                    _ => None,
                }
            }

            /// The value as it stands in its field.
            #[inline]
            #[must_use]
            pub const fn into_bits(self) -> $int {
                self.0
            }

            /// What a field with these bits says.
            #[inline]
            #[must_use]
            pub const fn from_bits(bits: $int) -> Self {
                Self(bits)
            }
        }

        impl core::fmt::Display for $name {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                match self.name() {
                    Some(name) => f.write_str(name),
                    None => write!(f, "unknown ({:x}h)", self.0),
                }
            }
        }

        impl From<$int> for $name {
            fn from(value: $int) -> Self {
                Self(value)
            }
        }

        impl From<$name> for $int {
            fn from(value: $name) -> Self {
                value.0
            }
        }
    };
}

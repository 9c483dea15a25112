//! Ed25519 keys in the form of NATS, signed orders, and what an agent checks before it obeys.

use std::fmt;
use std::io;
use std::path::Path;
use std::str::FromStr;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use nkeys::{KeyPair, KeyPairType};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::folder::write_private;
use crate::message::{self, Signed};
use crate::names::{Label, Random};
use crate::refusal::Refusal;

/// The largest order: `Prepare` lists the digests of all pieces of a package.
pub(crate) const MAX_ORDER_BYTES: usize = 64 * 1024;

/// How long an order for one agent may be valid: long enough for a slow link.
pub const MAX_VALIDITY_NS: u64 = 60_000_000_000;

/// The length of an encoded public key and of an encoded seed.
const PUBLIC_LENGTH: usize = 56;
const SEED_LENGTH: usize = 58;

/// Why a key is refused; one line, which never has the key's own text if it may be a seed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// The text is not the public key of a user.
    #[error("{0:?} is not a public key (expected U and 55 more capital letters and digits)")]
    Public(Label),
    /// The text is a seed, and a public key is expected.
    #[error("this is a seed, which must stay secret; expected the public key, which starts with U")]
    SeedAsPublic,
    /// The text is not the seed of a user's key.
    #[error("this is not the seed of a key (expected SU and 56 more capital letters and digits)")]
    Seed,
}

/// The public half of a key, which agents trust.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct PublicKey(String);

impl PublicKey {
    /// Whether this key made the signature.
    fn verifies(&self, text: &[u8], signature: &[u8]) -> bool {
        // The crate panics on a signature of another length.
        signature.len() == 64
            && KeyPair::from_public_key(&self.0)
                .is_ok_and(|key| key.verify(text, signature).is_ok())
    }
}

impl FromStr for PublicKey {
    type Err = KeyError;

    fn from_str(text: &str) -> Result<Self, KeyError> {
        if text.starts_with('S') && text.len() == SEED_LENGTH {
            return Err(KeyError::SeedAsPublic);
        }
        let is_key = text.len() == PUBLIC_LENGTH
            && text.starts_with('U')
            && text.bytes().all(is_base32)
            && KeyPair::from_public_key(text).is_ok();
        if is_key {
            Ok(Self(text.to_owned()))
        } else {
            Err(KeyError::Public(Label::new(text)))
        }
    }
}

impl fmt::Display for PublicKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(&self.0)
    }
}

impl fmt::Debug for PublicKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(&self.0)
    }
}

/// The digits of base 32 (RFC 4648).
fn is_base32(byte: u8) -> bool {
    byte.is_ascii_uppercase() || (b'2'..=b'7').contains(&byte)
}

/// A key that signs orders.
#[derive(Clone)]
pub struct SigningKey(KeyPair);

impl SigningKey {
    /// A key that nobody else has.
    ///
    /// # Panics
    /// Never: any 32 bytes are a seed.
    #[must_use]
    pub fn generate(random: &mut Random) -> Self {
        let mut seed = [0; 32];
        random(&mut seed);
        Self(KeyPair::new_from_raw(KeyPairType::User, seed).expect("any 32 bytes are a seed"))
    }

    /// The key with this seed. Lines around it and before it are ignored if they start with `#`.
    ///
    /// # Errors
    /// If it is not the seed of a user's key.
    pub fn from_seed(text: &str) -> Result<Self, KeyError> {
        let mut lines = text.lines().map(str::trim);
        let seed = lines
            .find(|line| !line.is_empty() && !line.starts_with('#'))
            .ok_or(KeyError::Seed)?;
        let is_seed =
            seed.len() == SEED_LENGTH && seed.starts_with("SU") && seed.bytes().all(is_base32);
        if is_seed {
            KeyPair::from_seed(seed)
                .map(Self)
                .map_err(|_| KeyError::Seed)
        } else {
            Err(KeyError::Seed)
        }
    }

    /// The seed, which must stay secret.
    ///
    /// # Panics
    /// Never: a signing key has one.
    #[must_use]
    pub fn seed(&self) -> String {
        self.0.seed().expect("a signing key has a seed")
    }

    /// The public key, which agents trust.
    #[must_use]
    pub fn public(&self) -> PublicKey {
        PublicKey(self.0.public_key())
    }

    /// Signs an [`Order`](crate::message::Order).
    ///
    /// # Panics
    /// Never: the key has a seed, and an order has a JSON form.
    #[must_use]
    pub fn sign<T: Serialize>(&self, order: &T) -> Signed {
        let text = serde_json::to_string(order).expect("an order can be written as JSON");
        let signature = self.0.sign(text.as_bytes()).expect("the key has a seed");
        Signed {
            key: Label::new(&self.0.public_key()),
            signature: BASE64_STANDARD.encode(signature),
            text,
        }
    }
}

/// Makes a key and writes its seed to a new file that only this user can read.
///
/// # Errors
/// The system's error; also if the file exists, so that no key is ever overwritten.
pub fn write_new_key(path: &Path, random: &mut Random) -> io::Result<PublicKey> {
    let key = SigningKey::generate(random);
    let public = key.public();
    let text = format!("# Secret. Agents trust: {public}\n{}\n", key.seed());
    write_private(path, text.as_bytes())?;
    Ok(public)
}

impl fmt::Debug for SigningKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "SigningKey({})", self.public())
    }
}

/// The keys whose orders an agent obeys.
#[derive(Debug, Clone, Default)]
pub struct TrustList(Vec<PublicKey>);

impl TrustList {
    /// Trusts these keys only.
    #[must_use]
    pub fn new(keys: Vec<PublicKey>) -> Self {
        Self(keys)
    }

    /// The order, if a key on the list has signed it.
    ///
    /// # Errors
    /// If the key is not trusted, the signature is wrong, or the text is not an order.
    pub fn open<T: DeserializeOwned>(&self, signed: &Signed) -> Result<(PublicKey, T), Refusal> {
        let trusted = self.0.iter().find(|key| key.0 == signed.key.as_str());
        let key = trusted.ok_or_else(|| Refusal::UntrustedKey {
            key: signed.key.clone(),
        })?;
        let text = signed.text.as_bytes();
        if text.len() > MAX_ORDER_BYTES {
            return Err(Refusal::TooLarge {
                what: "the order".into(),
                bytes: text.len() as u64,
                limit: MAX_ORDER_BYTES as u64,
            });
        }
        let signature = BASE64_STANDARD
            .decode(&signed.signature)
            .map_err(|_| Refusal::Signature)?;
        if !key.verifies(text, &signature) {
            return Err(Refusal::Signature);
        }
        let order = message::decode(text, MAX_ORDER_BYTES).map_err(|error| Refusal::Malformed {
            detail: Label::new(&error.to_string()),
        })?;
        Ok((key.clone(), order))
    }
}

/// The numbers of the orders of a session that were accepted. Each is accepted once, but orders may
/// overtake each other: this is the window of RFC 4303, section 3.4.3.
#[derive(Debug, Clone, Default)]
pub struct ReplayWindow {
    latest: u64,
    /// Bit n: whether the number `latest - n` was accepted.
    seen: u64,
}

impl ReplayWindow {
    /// Accepts an order once, between now and its end.
    ///
    /// # Errors
    /// If it has expired, is valid for too long, was accepted before, or is older than the latest
    /// 64 orders.
    pub fn accept(&mut self, number: u64, expires_ns: u64, now_ns: u64) -> Result<(), Refusal> {
        const NS_PER_MS: u64 = 1_000_000;
        if expires_ns <= now_ns {
            return Err(Refusal::Expired {
                late_ms: (now_ns - expires_ns) / NS_PER_MS,
            });
        }
        let valid_ns = expires_ns - now_ns;
        if valid_ns > MAX_VALIDITY_NS {
            return Err(Refusal::ValidTooLong {
                valid_ms: valid_ns / NS_PER_MS,
                limit_ms: MAX_VALIDITY_NS / NS_PER_MS,
            });
        }
        let shift = |bits: u64, by: u64| {
            let by = u32::try_from(by).unwrap_or(u32::MAX);
            bits.checked_shl(by).unwrap_or(0)
        };
        if number > self.latest {
            self.seen = shift(self.seen, number - self.latest) | 1;
            self.latest = number;
            return Ok(());
        }
        let bit = shift(1, self.latest - number);
        if bit == 0 || self.seen & bit != 0 {
            return Err(Refusal::Replayed);
        }
        self.seen |= bit;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::{Audience, Command, Order};
    use std::os::unix::fs::PermissionsExt;

    const SECOND: u64 = 1_000_000_000;

    fn key(seed: u8) -> SigningKey {
        let mut random: Random = Box::new(move |bytes| bytes.fill(seed));
        SigningKey::generate(&mut random)
    }

    fn order() -> Order {
        Order {
            version: "1".into(),
            fleet: "lab".parse().expect("a name"),
            run: "r".parse().expect("a name"),
            audience: Audience::Run { sequence: 1 },
            command: Command::Stop,
        }
    }

    #[test]
    fn a_key_is_the_same_after_its_seed_was_written_and_read() {
        let key = key(7);
        let read = SigningKey::from_seed(&format!("# a comment\n\n {} \n", key.seed()));
        assert_eq!(read.expect("a seed").public(), key.public());
        let public = key.public().to_string();
        assert!(public.starts_with('U') && public.len() == 56, "{public}");
        assert_eq!(public.parse(), Ok(key.public()));
    }

    #[test]
    fn a_new_key_is_written_once_and_privately() {
        let folder = testkit::Folder::new();
        let path = folder.join("fleet.key");
        let mut random: Random = Box::new(|bytes| bytes.fill(3));
        let public = write_new_key(&path, &mut random).expect("it is new");
        let mode = path.metadata().expect("it exists").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let read = SigningKey::from_seed(&folder.read("fleet.key")).expect("a seed");
        assert_eq!(read.public(), public);
        let again = write_new_key(&path, &mut random).unwrap_err();
        assert_eq!(again.kind(), io::ErrorKind::AlreadyExists);
    }

    /// The pair in NATS' documentation of authentication by nkeys.
    #[test]
    fn keys_have_the_form_of_nats() {
        let seed = "SUACSSL3UAHUDXKFSNVUZRF5UHPMWZ6BFDTJ7M6USDXIEDNPPQYYYCU3VY";
        let public = "UDXU4RCSJNZOIQHZNWXHXORDPRTGNJAHAHFRGZNEEJCPQTT2M7NLCNF4";
        let key = SigningKey::from_seed(seed).expect("a seed");
        assert_eq!(key.seed(), seed);
        assert_eq!(key.public().to_string(), public);
    }

    #[test]
    fn a_text_that_is_no_key_is_refused_without_showing_a_seed() {
        let seed = key(1).seed();
        let error = seed.parse::<PublicKey>().unwrap_err();
        assert_eq!(error, KeyError::SeedAsPublic);
        assert!(!error.to_string().contains(&seed));
        let mut wrong_sum = key(1).public().to_string();
        let last = wrong_sum.pop();
        wrong_sum.push(if last == Some('A') { 'B' } else { 'A' });
        for bad in ["", "U", "ä", &wrong_sum, &"U".repeat(56), &"=".repeat(56)] {
            assert!(bad.parse::<PublicKey>().is_err(), "{bad}");
        }
        for bad in [
            "",
            "\n#\n",
            "SU",
            &"S".repeat(58),
            &"SU=".repeat(20),
            &"ä".repeat(29),
        ] {
            assert_eq!(
                SigningKey::from_seed(bad).err(),
                Some(KeyError::Seed),
                "{bad}"
            );
        }
    }

    #[test]
    fn only_an_unchanged_order_of_a_trusted_key_is_opened() {
        let (mine, other) = (key(1), key(2));
        let trust = TrustList::new(vec![mine.public()]);
        let signed = mine.sign(&order());
        assert_eq!(trust.open(&signed), Ok((mine.public(), order())));
        let by_other = trust.open::<Order>(&other.sign(&order()));
        assert!(matches!(by_other, Err(Refusal::UntrustedKey { .. })));
        let mut claimed = other.sign(&order());
        claimed.key = signed.key.clone();
        assert_eq!(trust.open::<Order>(&claimed), Err(Refusal::Signature));
        let mut changed = signed.clone();
        changed.text = changed.text.replace("stop", "lease");
        assert_eq!(trust.open::<Order>(&changed), Err(Refusal::Signature));
        for bad in ["", "AAAA", "!"] {
            let mut cut = signed.clone();
            cut.signature = bad.to_owned();
            assert_eq!(trust.open::<Order>(&cut), Err(Refusal::Signature), "{bad}");
        }
        assert!(matches!(
            TrustList::default().open::<Order>(&signed),
            Err(Refusal::UntrustedKey { .. })
        ));
    }

    #[test]
    fn an_order_is_accepted_once_and_within_its_time() {
        let mut window = ReplayWindow::default();
        let now = 100 * SECOND;
        assert_eq!(window.accept(1, now + SECOND, now), Ok(()));
        let again = window.accept(1, now + SECOND, now + 1);
        assert_eq!(again, Err(Refusal::Replayed));
        let expired = window.accept(2, now - 5_000_000, now);
        assert_eq!(expired, Err(Refusal::Expired { late_ms: 5 }));
        let long = window.accept(2, now + MAX_VALIDITY_NS + 1, now);
        assert!(matches!(long, Err(Refusal::ValidTooLong { .. })));
        assert_eq!(window.accept(2, now + MAX_VALIDITY_NS, now), Ok(()));
    }

    #[test]
    fn orders_may_overtake_each_other_but_none_is_accepted_twice_or_much_later() {
        let mut window = ReplayWindow::default();
        let mut accept = |number| window.accept(number, SECOND, 0).is_ok();
        for number in [3, 1, 2, 70, 69, 7] {
            assert!(accept(number), "{number}");
        }
        for number in [3, 1, 2, 70, 69, 7, 6, 0] {
            assert!(!accept(number), "{number}");
        }
        for number in [u64::MAX, u64::MAX - 63] {
            assert!(accept(number) && !accept(number), "{number}");
        }
        for number in [u64::MAX - 64, 71] {
            assert!(!accept(number), "{number}");
        }
    }
}

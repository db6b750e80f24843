//! Canonical forms of scalars with JSON of their own. Errors are the sentences of Go's decoders.

use base64::Engine;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use meta::{Quantity, Time};
use serde_json::Value;

use super::go_type::json_kind;
use crate::{StringFormat, text};

/// Go's standard encoding: padded, trailing bits ignored.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_allow_trailing_bits(true)
        .with_decode_padding_mode(DecodePaddingMode::RequireCanonical),
);

/// Bytes of base64 text, as Go decodes it: line breaks inside are ignored.
pub(crate) fn decode_base64(text: &str) -> Result<Vec<u8>, String> {
    let joined: String;
    let text = if text.contains(['\r', '\n']) {
        joined = text.replace(['\r', '\n'], "");
        &joined
    } else {
        text
    };
    BASE64.decode(text).map_err(|error| {
        let at = match error {
            base64::DecodeError::InvalidByte(at, _) | base64::DecodeError::InvalidLastSymbol(at, _) => at,
            base64::DecodeError::InvalidLength(_) | base64::DecodeError::InvalidPadding => text.len() / 4 * 4,
        };
        format!("illegal base64 data at input byte {at}")
    })
}

/// Base64 text of bytes.
pub(crate) fn encode_base64(bytes: &[u8]) -> String {
    BASE64.encode(bytes)
}

/// A quantity's text as the API stores it.
pub(super) fn quantity(value: &Value) -> Result<Value, String> {
    match value {
        Value::String(text) => Quantity::normalize(text).map(|text| Value::from(text.into_owned())),
        other => Quantity::normalize(&other.to_string()).map(|text| Value::from(text.into_owned())),
    }
}

/// A whole number of 32 bits or text.
pub(super) fn int_or_string(value: Value) -> Result<Value, String> {
    let refuse = |what: String| Err(format!("json: cannot unmarshal {what} into Go value of type int32"));
    match &value {
        Value::String(_) => Ok(value),
        Value::Number(n) if n.as_i64().is_some_and(|n| i32::try_from(n).is_ok()) => Ok(value),
        Value::Number(n) => refuse(format!("number {n}")),
        other => refuse(json_kind(other)),
    }
}

/// Text of a special format in its canonical form; `None` stands for the zero time, which reads as absent.
pub(super) fn formatted(text: String, format: StringFormat) -> Result<Option<String>, String> {
    match format {
        StringFormat::Plain => Ok(Some(text)),
        StringFormat::Bytes => Ok(Some(encode_base64(&decode_base64(&text)?))),
        StringFormat::Duration => Ok(Some(meta::duration::format(meta::duration::parse(&text)?))),
        StringFormat::Time => time(&text).map(|t| t.map(Time::to_rfc3339)),
        StringFormat::MicroTime => time(&text).map(|t| t.map(Time::to_rfc3339_micros)),
    }
}

/// The first instant that Go can write, its zero time.
const ZERO_TIME_SECS: i64 = -62_135_596_800;

fn time(text: &str) -> Result<Option<Time>, String> {
    let refuse = || {
        let quoted = text::quoted(text);
        format!("parsing time {quoted} as \"2006-01-02T15:04:05Z07:00\": cannot parse {quoted} as \"2006\"")
    };
    if !is_rfc3339(text.as_bytes()) {
        return Err(refuse());
    }
    let time = Time::parse(text).ok_or_else(refuse)?;
    Ok((time != Time::from_secs(ZERO_TIME_SECS)).then_some(time))
}

/// Exactly `YYYY-MM-DDThh:mm:ss[.f]` with `Z` or an offset; parsers at hand take more than Go does.
fn is_rfc3339(text: &[u8]) -> bool {
    const SHAPE: &[u8] = b"dddd-dd-ddTdd:dd:dd";
    let Some((head, mut rest)) = text.split_at_checked(SHAPE.len()) else { return false };
    let fits = |(c, shape): (&u8, &u8)| if *shape == b'd' { c.is_ascii_digit() } else { c == shape };
    if !head.iter().zip(SHAPE).all(fits) {
        return false;
    }
    if let [b'.' | b',', fraction @ ..] = rest {
        let digits = fraction.iter().take_while(|c| c.is_ascii_digit()).count();
        if digits == 0 {
            return false;
        }
        rest = &fraction[digits..];
    }
    match rest {
        b"Z" => true,
        [b'+' | b'-', h1, h2, b':', m1, m2] => [h1, h2, m1, m2].iter().all(|c| c.is_ascii_digit()),
        _ => false,
    }
}

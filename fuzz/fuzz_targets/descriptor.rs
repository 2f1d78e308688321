//! The text of a foreign descriptor, compared with ours. The differences are reported in a few
//! printable lines.
#![no_main]

use libfuzzer_sys::fuzz_target;
use underpass_fuzz::TargetClient;

fuzz_target!(|text: &str| {
    let ours = TargetClient::descriptor();
    let told = ours.differences(text);
    assert!(told.len() < 20_000, "{} bytes", told.len());
    assert!(told.lines().count() <= 13 && told.chars().all(|c| c == '\n' || !c.is_control()));
    let same: Vec<_> = ours.text().lines().map(str::to_owned).collect();
    if text.lines().eq(&same) {
        assert_eq!(told, "");
    }
});

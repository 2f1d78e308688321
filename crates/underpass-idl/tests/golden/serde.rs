#[interface]
trait Search {
    #[underpass(serde)]
    fn find(&self, #[underpass(serde)] query: &Query, #[underpass(serde)] limits: Limits) -> Result<Value, Error>;
}

#[derive(Wire)]
struct Hit {
    #[underpass(serde)]
    url: Url,
    rank: u32,
}

#[derive(Wire)]
enum Answer {
    Found(#[underpass(serde)] Url, u32),
}

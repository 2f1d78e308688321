#[interface(crate = crate::mock)]
trait Arguments: Send + Sync + std::fmt::Debug + 'static {
    fn lent(&self, text: &str, bytes: &[u8], stats: &[fs::Stat], stat: &fs::Stat) -> io::Result<()>;
    fn owned(&self, r#type: (u8, Option<[bool; 3]>), local: HashMap<String, u64>) -> Result<(), Error>;
    fn many(&self, a: u8, b: u8, c: u8, d: u8, e: u8, f: u8, g: u8, h: u8, i: u8, j: u8, k: u8, l: u8, m: &str) -> Result<(), Error>;
}

#[interface(crate = crate::mock)]
trait Arguments: Send + Sync + std::fmt::Debug + 'static {
    fn lent(&self, text: &str, bytes: &[u8], stats: &[fs::Stat], stat: &fs::Stat) -> io::Result<()>;
    fn owned(&self, r#type: (u8, Option<[bool; 3]>), local: HashMap<String, u64>) -> Result<(), Error>;
}

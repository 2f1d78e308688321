#[interface(crate = crate::mock)]
trait Provided: Send + Sync + std::fmt::Debug + 'static {
    fn provided(&self) -> Result<u8, Error> {
        Ok(7)
    }
}

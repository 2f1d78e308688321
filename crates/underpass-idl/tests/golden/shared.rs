#[interface(crate = crate::mock)]
trait Blocks {
    fn shared(&self, #[underpass(shared)] block: Shared<'_>, at: u64) -> Result<(), Error>;
}

use underpass::CallError;

#[underpass::interface]
trait Store {
    async fn later(&self) -> Result<(), CallError>;
    unsafe fn trusting(&self) -> Result<(), CallError>;
    fn bounded(&self) -> Result<(), CallError>
    where
        u8: Copy;
    fn serve(&self) -> Result<(), CallError>;
    fn import_by(&self) -> Result<(), CallError>;
    fn counters(&self) -> Result<(), CallError>;
    fn twice(&self) -> Result<(), CallError>;
    fn twice(&self, again: bool) -> Result<(), CallError>;
    #[cfg(unix)]
    fn sometimes(&self) -> Result<(), CallError>;
}

fn main() {}

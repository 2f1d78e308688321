#[interface(calls = 8)]
pub trait Frames {
    #[underpass(astack = 65_536, calls = 2)]
    fn put(&self, frame: &[u8]) -> Result<(), FrameError>;
    fn newest(&self) -> Result<u64, FrameError>;
}

#[object]
impl Book {
    /// The best price.
    #[access]
    pub fn best(&self) -> Option<u32> {
        None
    }
    #[either]
    pub fn depth(&self, side: Side, prices: &[u32]) -> u64 {
        0
    }
    #[either(fixed = invoke)]
    fn sum(&self) -> u64 {
        0
    }
    /// Places an order.
    #[invoke]
    pub fn place(&mut self, order: Order) -> Result<u64, BookError> {
        Ok(0)
    }
    #[invoke(interrupt)]
    pub fn cancel(&mut self, id: u64, amount: u32) -> u64 {
        0
    }
    #[invoke(interrupt)]
    fn halt(&mut self) {}
}

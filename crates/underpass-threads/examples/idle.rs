fn main() {
    underpass_threads::spawn(|| ()).join().unwrap();
    std::thread::sleep(std::time::Duration::from_secs(3));
}

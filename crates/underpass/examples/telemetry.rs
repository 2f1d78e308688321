//! Readings from many processes, with reported loss: `cargo run --example telemetry`, or with the
//! number of sensors and the milliseconds that the collector is busy with each reading.

use std::collections::BTreeMap;
use std::process::Command;
use std::time::Duration;
use underpass::port::{Arrival, PortOptions, PortSender, SenderId};
use underpass::{Server, thread};

const NAME: &str = "telemetry";
const READINGS: u64 = 500;

#[derive(underpass::Wire)]
struct Reading {
    process: u32,
    number: u64,
}

/// What the collector knows of one sensor.
#[derive(Default)]
struct Sensor {
    process: u32,
    received: u64,
    lost: u64,
}

/// A sensor never waits for the collector.
fn measure() -> Result<(), Box<dyn std::error::Error>> {
    let port = PortSender::<Reading>::connect_within(NAME, Duration::from_secs(5))?;
    for number in 0..READINGS {
        port.send(&Reading { process: std::process::id(), number })?;
        thread::sleep(Duration::from_millis(1));
    }
    Ok(())
}

fn collect(sensors: usize, busy: Duration) -> Result<(), Box<dyn std::error::Error>> {
    // Room for 16 readings of each sensor. The oldest make room for new ones.
    let (service, readings) = PortOptions::new().messages(16).drop_oldest().open::<Reading>()?;
    let _running = Server::new().export(NAME, service).start()?;
    let start = || Command::new(std::env::current_exe()?).arg("sensor").spawn();
    let mut started = (0..sensors).map(|_| start()).collect::<Result<Vec<_>, _>>()?;
    let mut known = BTreeMap::<SenderId, Sensor>::new();
    let mut ended = 0;
    while ended < sensors {
        match readings.recv()? {
            Arrival::Message(came) => {
                let sensor = known.entry(came.from).or_default();
                sensor.process = came.message.process;
                sensor.received += 1;
                sensor.lost += came.lost;
                thread::sleep(busy);
            }
            Arrival::Ended(lane) => {
                let sensor = known.remove(&lane.from).unwrap_or_default();
                let Sensor { process, received, lost } = sensor;
                println!("process {process}: {received} received, {lost} lost, ended: {:?}", lane.why);
                ended += 1;
            }
        }
    }
    started.iter_mut().try_for_each(|sensor| sensor.wait().map(drop))?;
    Ok(())
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    match arguments.next().as_deref() {
        Some("sensor") => measure(),
        sensors => {
            let sensors = sensors.map_or(Ok(4), str::parse)?;
            let busy = arguments.next().map_or(Ok(1), |busy| busy.parse())?;
            collect(sensors, Duration::from_millis(busy))
        }
    }
}

//! How much memory the lanes of one user take.

use crate::guard::lock;
use std::collections::HashMap;
use std::sync::Arc;
use underpass_sync::Mutex;

/// The bytes that the lanes of each user take, and the most that they may.
#[derive(Debug)]
pub(crate) struct Quota {
    most: u64,
    used: Mutex<HashMap<u32, u64>>,
}

/// The bytes of one lane, until dropped.
#[derive(Debug)]
pub(crate) struct Charge {
    quota: Arc<Quota>,
    uid: u32,
    bytes: u64,
}

impl Quota {
    pub(crate) fn new(most: u64) -> Arc<Self> {
        Arc::new(Self { most, used: Mutex::new(HashMap::new()) })
    }

    /// Counts `bytes` for `uid`, if it may have them. `free`: whatever the limit says.
    pub(crate) fn charge(self: &Arc<Self>, uid: u32, bytes: u64, free: bool) -> Option<Charge> {
        let mut used = lock(&self.used);
        let of_user = used.entry(uid).or_default();
        let sum = of_user.checked_add(bytes).filter(|&sum| free || sum <= self.most);
        match sum {
            Some(sum) => *of_user = sum,
            None => {
                let none = *of_user == 0;
                if none {
                    used.remove(&uid);
                }
                return None;
            }
        }
        Some(Charge { quota: self.clone(), uid, bytes })
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        let mut used = lock(&self.quota.used);
        if let Some(of_user) = used.get_mut(&self.uid) {
            *of_user -= self.bytes;
            if *of_user == 0 {
                used.remove(&self.uid);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_user_has_its_own_limit() {
        let quota = Quota::new(100);
        let first = quota.charge(1, 60, false).unwrap();
        assert!(quota.charge(1, 41, false).is_none());
        let (_rest, _other) = (quota.charge(1, 40, false).unwrap(), quota.charge(2, 100, false).unwrap());
        assert!(quota.charge(1, 1, false).is_none() && quota.charge(1, 1, true).is_some());
        drop(first);
        assert!(quota.charge(1, 60, false).is_some());
        assert!(quota.charge(3, 101, false).is_none());
        assert!(!lock(&quota.used).contains_key(&3));
    }
}

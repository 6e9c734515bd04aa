//! Finding the namespaces.

use super::{Controller, ControllerError, Namespace, Refused, RefusedReason};
use alloc::boxed::Box;
use alloc::vec::Vec;
use nvme_proto::Nsid;
use nvme_proto::admin::Identify;
use nvme_proto::identify::NamespaceList;
use ugds_hal::{AdminError, Backend};

/// The active namespaces of a controller.
#[derive(Clone, Debug, Default)]
pub struct Scan {
    /// Those that can be used, in order of their identifiers.
    pub namespaces: Vec<Namespace>,
    /// Those that can't, and why.
    pub refused: Vec<Refused>,
}

impl<B: Backend> Controller<B> {
    /// Looks at every active namespace.
    ///
    /// One that is unfit, or vanishes meanwhile, is among the refused.
    ///
    /// # Errors
    ///
    /// [`ControllerError::Admin`] when the list itself can't be had.
    pub fn scan(&mut self) -> Result<Scan, ControllerError> {
        let mut scan = Scan::default();
        for nsid in self.active_namespaces()? {
            match self.describe(nsid)? {
                Ok(namespace) => scan.namespaces.push(namespace),
                Err(reason) => scan.refused.push(Refused { nsid, reason }),
            }
        }
        Ok(scan)
    }

    /// Reads the list of active namespaces page by page. Identifiers may be sparse, so nothing counts up to NN.
    fn active_namespaces(&mut self) -> Result<Vec<Nsid>, ControllerError> {
        let mut all: Vec<Nsid> = Vec::new();
        let mut after = Nsid::NONE;
        loop {
            let list: Box<NamespaceList> = self.admin.identify(&Identify::active_namespaces(after))?;
            // A controller that ignores where to start would keep us here for ever.
            all.extend(list.iter().filter(|nsid| *nsid > after));
            match list.next_after() {
                Some(last) if last > after && all.len() < MAX_NAMESPACES => after = last,
                _ => return Ok(all),
            }
        }
    }

    fn describe(&mut self, nsid: Nsid) -> Result<Result<Namespace, RefusedReason>, ControllerError> {
        match self.admin.identify(&Identify::namespace(nsid)) {
            Ok(identify) => Ok(Namespace::new(nsid, identify, self.facts.max_transfer_bytes)),
            Err(ControllerError::Admin(error @ AdminError::Status { .. })) => {
                Ok(Err(RefusedReason::Identify(error)))
            }
            Err(other) => Err(other),
        }
    }
}

/// More than any controller has attached; the end of a controller that makes them up.
const MAX_NAMESPACES: usize = 1 << 16;

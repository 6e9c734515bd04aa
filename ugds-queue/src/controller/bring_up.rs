//! Bringing a controller up. Each step consumes the one before; a step that fails leaves the controller stopped.

use super::shutdown::prove_stop;
use super::{AdminQueue, Controller, ControllerError, Facts, Options};
use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::time::Duration;
use nvme_proto::admin::{AsyncEventConfig, Identify, NumberOfQueues, SetFeatures};
use nvme_proto::register::{Cap, Cc, CommandSets, Crto, Csts, Property, Vs};
use nvme_proto::{PageSize, Qid, identify};
use ugds_hal::pcie::ShadowPages;
use ugds_hal::{AdminError, Backend, Claim, Stopped, poll};
use ugds_mem::{Domain, Io, MAX_TRANSFER_BYTES};

impl<B: Backend> Controller<B> {
    /// Resets and enables the controller behind `backend`, and settles with it what it can do.
    ///
    /// # Errors
    ///
    /// [`ControllerError`]. The controller is stopped then; what could not be proved to have stopped is leaked.
    pub fn bring_up(backend: Arc<B>, options: Options) -> Result<Self, ControllerError> {
        let claim = backend.traits().claim().ok_or(ControllerError::Claimed)?;
        match Known::read(backend, options).and_then(Known::disable) {
            Ok(disabled) => disabled.enable(claim)?.settle(),
            Err(error) => {
                claim.unused();
                Err(error)
            }
        }
    }
}

/// A controller whose capabilities are known.
struct Known<B> {
    backend: Arc<B>,
    options: Options,
    cap: Cap,
    version: Vs,
    page: PageSize,
    ready_timeout: Duration,
}

impl<B: Backend> Known<B> {
    fn read(backend: Arc<B>, options: Options) -> Result<Self, ControllerError> {
        let cap = Cap::from_bits(backend.property_read(Property::CAP)?);
        if cap.is_gone() {
            return Err(ControllerError::Gone);
        }
        let version = Vs::from_bits(backend.property_read(Property::VS)? as u32);
        if !cap.command_sets().contains(CommandSets::NVM) {
            return Err(ControllerError::NoNvmCommandSet { css: cap.css() });
        }
        let page = choose_page(cap)?;
        let ready_timeout = ready_timeout(&*backend, cap, options.ready_floor)?;
        Ok(Self { backend, options, cap, version, page, ready_timeout })
    }

    /// Stops whatever the controller was doing for the last owner.
    fn disable(self) -> Result<Disabled<B>, ControllerError> {
        let proof = prove_stop(&*self.backend, self.ready_timeout)?;
        Ok(Disabled { known: self, _proof: proof })
    }
}

/// A controller that is proved to be stopped.
struct Disabled<B> {
    known: Known<B>,
    /// What makes the name true. It ends when the controller is enabled.
    _proof: Stopped,
}

impl<B: Backend> Disabled<B> {
    fn enable(self, claim: Claim) -> Result<Enabled<B>, ControllerError> {
        let admin = match self.known.configure().and_then(|()| self.known.open_admin_queue()) {
            Ok(admin) => admin,
            Err(error) => {
                claim.unused();
                return Err(error);
            }
        };
        let mut enabled = Enabled { known: self.known, admin, shadow: None, claim };
        match enabled.known.switch_on() {
            Ok(()) => Ok(enabled),
            Err(error) => Err(enabled.roll_back(error)),
        }
    }
}

impl<B: Backend> Known<B> {
    /// Sets everything but the bit that makes the controller look at it. Before the admin queue, which belongs to the
    /// era that begins with the enabling: no proof would cover it if the controller were never enabled.
    fn configure(&self) -> Result<(), ControllerError> {
        let cc = Cc::for_page(self.page).into_bits();
        Ok(self.backend.property_write(Property::CC, cc.into())?)
    }

    fn open_admin_queue(&self) -> Result<AdminQueue<B>, ControllerError> {
        AdminQueue::open(&self.backend, self.page, self.options.admin_timeout, self.options.cid_generations)
    }

    fn switch_on(&mut self) -> Result<(), ControllerError> {
        let cc = Cc::for_page(self.page).with_en(true).into_bits();
        self.backend.property_write(Property::CC, cc.into())?;
        self.wait_ready()
    }

    fn wait_ready(&mut self) -> Result<(), ControllerError> {
        // CAP may change with CC (CRTO modes); the time that counts is that of the new one.
        self.cap = Cap::from_bits(self.backend.property_read(Property::CAP)?);
        if self.cap.is_gone() {
            return Err(ControllerError::Gone);
        }
        self.ready_timeout = ready_timeout(&*self.backend, self.cap, self.options.ready_floor)?;
        let ready = poll(self.backend.clock(), self.ready_timeout, || {
            let csts = Csts::from_bits(self.backend.property_read(Property::CSTS)? as u32);
            if csts.is_gone() {
                return Err(ControllerError::Gone);
            }
            if csts.cfs() {
                return Err(ControllerError::FatalOnEnable);
            }
            Ok(csts.rdy().then_some(()))
        });
        ready?.ok_or(ControllerError::NotReady { waited: self.ready_timeout })
    }
}

/// A controller that was enabled, and answers admin commands if it became ready.
struct Enabled<B: Backend> {
    known: Known<B>,
    admin: AdminQueue<B>,
    /// What the controller was or was to be told about.
    shadow: Option<Arc<ShadowPages>>,
    claim: Claim,
}

impl<B: Backend> Enabled<B> {
    fn settle(mut self) -> Result<Controller<B>, ControllerError> {
        match self.agree() {
            Ok((identify, facts, domain)) => Ok(self.finish(identify, facts, domain)),
            Err(error) => Err(self.roll_back(error)),
        }
    }

    fn agree(&mut self) -> Result<Agreed<B>, ControllerError> {
        let identify: Box<identify::Controller> = self.admin.identify(&Identify::controller())?;
        check_entry_sizes(&identify)?;
        let queues = self.number_of_queues()?;
        let facts = Facts {
            version: self.known.version,
            page: self.known.page,
            max_transfer_bytes: max_transfer(&identify, self.known.cap.min_page()),
            queues,
            queue_entries: queue_entries(self.known.cap, self.known.options.queue_entries),
            sgl: self.known.options.sgl && identify.sgls().align_bytes().is_some(),
            shadow_doorbells: self.shadow_doorbells(&identify)?,
            volatile_write_cache: identify.vwc().present(),
        };
        self.listen(&identify)?;
        let domain = Domain::of_enabled(Arc::clone(&self.known.backend), facts.sgl)?;
        Ok((identify, facts, domain))
    }

    fn number_of_queues(&mut self) -> Result<u16, ControllerError> {
        let wanted = self.known.options.queues.max(1);
        let result = self.admin.run(&Io::number_of_queues(wanted))?;
        let granted = NumberOfQueues::from_bits(result).granted();
        Ok(u16::try_from(granted).unwrap_or(u16::MAX).min(wanted))
    }

    /// Asks to be told about health, changed namespaces and firmware; errors are told anyway.
    fn listen(&mut self, identify: &identify::Controller) -> Result<(), ControllerError> {
        let wanted = AsyncEventConfig::new().with_smart(0xff).with_nan(true).with_fan(true);
        // Events are a service: a controller that does not take all of this tells what it tells.
        if let Some(set) = Io::set_features(&SetFeatures::new(wanted)) {
            match self.admin.run(&set) {
                Ok(_) | Err(AdminError::Status { .. }) => {}
                Err(other) => return Err(other.into()),
            }
        }
        Ok(self.admin.listen(identify.event_request_limit().min(EVENT_REQUESTS))?)
    }

    /// Tells the controller about shadow doorbells, where it has them, and says whether it took them.
    fn shadow_doorbells(&mut self, identify: &identify::Controller) -> Result<bool, ControllerError> {
        let offered = identify.oacs().contains(identify::Oacs::DOORBELL_BUFFER);
        if !self.known.options.shadow_doorbells || !offered {
            return Ok(false);
        }
        let dstrd = self.known.cap.dstrd();
        let pages = Arc::new(ShadowPages::allocate(&*self.known.backend, self.known.page, dstrd)?);
        let pages = self.shadow.insert(pages);
        let Some(config) = Io::doorbell_buffer_config(pages) else { return Ok(false) };
        match self.admin.run(&config) {
            Ok(_) => Ok(true),
            // The plain doorbells do as well.
            Err(AdminError::Status { .. }) => Ok(false),
            Err(other) => Err(other.into()),
        }
    }

    fn finish(self, identify: Box<identify::Controller>, facts: Facts, domain: Domain<B>) -> Controller<B> {
        let Known { backend, options, cap, .. } = self.known;
        Controller {
            domain,
            backend,
            claim: self.claim,
            admin: self.admin,
            identify,
            cap,
            options,
            facts,
            shadow: self.shadow,
            stranded: Vec::new(),
            free_qids: (1..=facts.queues).rev().map(Qid).collect(),
        }
    }

    /// Stops the controller and frees what it was given; without proof all of that is leaked.
    #[cold]
    fn roll_back(self, error: ControllerError) -> ControllerError {
        match prove_stop(&*self.known.backend, self.known.ready_timeout) {
            Ok(proof) => {
                self.admin.close(&proof);
                if let Some(shadow) = &self.shadow {
                    shadow.release(&proof);
                }
                self.claim.release(&proof);
            }
            Err(_) => core::mem::forget(self.admin),
        }
        error
    }
}

type Agreed<B> = (Box<identify::Controller>, Facts, Domain<B>);

/// The smallest page that the controller takes: any memory that suits a larger one suits it too.
fn choose_page(cap: Cap) -> Result<PageSize, ControllerError> {
    let (min, max) = (cap.min_page(), cap.max_page());
    if min > max {
        return Err(ControllerError::PageSizes { min, max });
    }
    Ok(min)
}

/// `CAP.TO` may be 0 and is a lie on many controllers, so there is a floor.
fn ready_timeout<B: Backend>(backend: &B, cap: Cap, floor: Duration) -> Result<Duration, ControllerError> {
    let stated = if cap.crwms() {
        let crto = Crto::from_bits(backend.property_read(Property::CRTO)? as u32);
        cap.ready_timeout_with_crto_ms(crto)
    } else {
        cap.ready_timeout_ms()
    };
    Ok(Duration::from_millis(stated.into()).max(floor))
}

fn check_entry_sizes(identify: &identify::Controller) -> Result<(), ControllerError> {
    for (queue, required, supported) in
        [("submission", identify.sqes().min(), SQE_SHIFT), ("completion", identify.cqes().min(), CQE_SHIFT)]
    {
        if required > supported {
            return Err(ControllerError::EntrySize { queue, required, supported });
        }
    }
    Ok(())
}

fn max_transfer(identify: &identify::Controller, min_page: PageSize) -> u32 {
    let stated = identify.max_transfer_bytes(min_page).unwrap_or(DEFAULT_TRANSFER_BYTES);
    u32::try_from(stated).unwrap_or(u32::MAX).min(MAX_TRANSFER_BYTES)
}

/// The largest power of two that was asked for and that the controller takes. A queue has two entries at least, even
/// where `MQES` says one.
fn queue_entries(cap: Cap, wanted: u16) -> u16 {
    let most = cap.max_queue_entries().min(wanted.into()).clamp(2, MAX_ENTRIES);
    1 << most.ilog2()
}

/// Events that may come before somebody looks.
const EVENT_REQUESTS: u32 = 4;
const SQE_SHIFT: u8 = 6;
const CQE_SHIFT: u8 = 4;
/// For controllers that set no limit: large enough for full speed, small enough for any of them.
const DEFAULT_TRANSFER_BYTES: u64 = 128 << 10;
/// One slot less than entries, and the slot's index has twelve bits.
const MAX_ENTRIES: u32 = crate::MAX_SLOTS as u32 + 1;

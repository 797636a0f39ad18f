//! Phases on every worker, and the measured run.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use latchwork_cluster::Member;
use latchwork_report::conditions::Conditions;
use latchwork_runtime::Time;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::Figures;
use crate::progress::{Extent, Title};
use crate::stop::{self, Signal};
use crate::{AppError, Cores, Course, Limit, PhaseProgress, Plan, RunCluster, RunPart, Warmup};

/// The time between the call of a run and its begin, so that all workers are ready at the begin.
const LEAD_TIME: Duration = Duration::from_millis(20);

/// The state that the workers of a measured run share.
pub trait MeasuredRun: Send + Sync + 'static {
    /// The course that the workers follow, if they follow one.
    fn course(&self) -> Option<&Course>;

    /// Ends the run on all workers because of a signal. Returns false if it is still in its
    /// warm-up.
    fn stop(&self, signal: Signal) -> bool {
        self.course().is_some_and(|course| course.stop(signal))
    }

    /// The part of the run at this time; `None` after its end.
    fn part(&self, _now: Time) -> Option<RunPart> {
        self.course().and_then(Course::part)
    }
}

/// The results of the workers of a measured run.
pub struct Ran<T> {
    /// The result of each worker.
    pub done: Vec<T>,
    /// The limit that a simulated cluster counted.
    counted: Option<Limit>,
    /// How far the figures can be trusted, in real time.
    pub conditions: Option<Conditions>,
}

impl<T> Ran<T> {
    /// `figures` with the conditions and the limit of the run. `log_sync` is the share of the time
    /// in which the logs were syncing.
    pub fn complete(&self, figures: Figures, log_sync: Option<f64>) -> Figures {
        let conditions = self.conditions.clone();
        let limit = Limit::of_run(self.counted.clone(), conditions.as_ref(), log_sync);
        Figures { limit, conditions, ..figures }
    }
}

impl RunCluster {
    /// Workers of all compute nodes.
    pub fn workers(&self) -> usize {
        self.config().compute_nodes * self.config().workers
    }

    /// The progress of a phase of all workers.
    pub fn progress(&self) -> Arc<PhaseProgress> {
        Arc::new(PhaseProgress::new(self.workers()))
    }

    /// The number of events of a simulated world so far.
    pub fn events(&self) -> Option<u64> {
        match self {
            RunCluster::Embedded(_) | RunCluster::Joined(_) => None,
            RunCluster::Simulated(cluster) => Some(cluster.kernel().events()),
        }
    }

    /// The time at which all workers of all processes begin a run. All processes call this method.
    /// A single process can begin at once, without `lead`.
    ///
    /// # Errors
    /// When another process died or left.
    pub fn begin(&self, lead: bool) -> Result<Time, AppError> {
        let now = self.now_of_all()?;
        Ok(if lead || self.process().1 > 1 { now + LEAD_TIME } else { now })
    }

    /// A course of this process's share of the plan. The warm-up begins at `begin`. All processes
    /// measure for the same time.
    pub fn course(&self, plan: Plan, begin: Time) -> Course {
        let warmup = match plan.warmup {
            Warmup::Operations(all) => Warmup::Operations(self.share_of(all)),
            Warmup::Steady { window } => Warmup::Steady { window: self.share_of(window) },
            time @ Warmup::Time(_) => time,
        };
        let operations = plan.operations.map(|all| self.share_of(all));
        let plan = Plan { warmup, operations, ..plan };
        Course::new(plan, &self.counting(), self.workers(), self.loop_time(), begin)
    }

    /// Runs `body` on every worker, with what workers share, and shows the progress. The first
    /// error of any worker ends the phase for all.
    ///
    /// # Errors
    /// As [`RunCluster::run_phase`].
    pub fn phase<S, T, F, Fut>(
        &self,
        title: Title,
        extent: Extent,
        shared: &Arc<S>,
        body: F,
    ) -> Result<Vec<T>, AppError>
    where
        S: Send + Sync + 'static,
        T: Serialize + DeserializeOwned + Send + 'static,
        F: Fn(Arc<S>, Arc<PhaseProgress>, Member) -> Fut + Sync + 'static,
        Fut: Future<Output = Result<T, AppError>> + 'static,
    {
        let phase = self.progress();
        let (shared, ended) = (shared.clone(), phase.clone());
        self.run_phase(title, extent, &phase, move |member| {
            let (phase, worked) = (ended.clone(), body(shared.clone(), ended.clone(), member));
            async move { Box::pin(worked).await.map_err(|error| phase.fail(error)).ok() }
        })
    }

    /// The measured run: runs `body` on every worker until the run is over. A signal ends the run,
    /// and its results count. With `shown` the progress of this phase is shown, and its workers end
    /// when the phase has failed; otherwise they end when the course has failed.
    ///
    /// # Errors
    /// The first error of any worker; as [`RunCluster::run`].
    pub fn measure<R, T, F, Fut>(
        &self,
        run: &Arc<R>,
        shown: Option<(Title, Extent, &Arc<PhaseProgress>)>,
        body: F,
    ) -> Result<Ran<T>, AppError>
    where
        R: MeasuredRun,
        T: Serialize + DeserializeOwned + Send + 'static,
        F: Fn(Arc<R>, Member) -> Fut + Sync + 'static,
        Fut: Future<Output = Result<T, AppError>> + 'static,
    {
        let (ours, ending, metered) = (run.clone(), run.clone(), run.clone());
        let phase = shown.map(|(_, _, phase)| phase.clone());
        let body = move |member| {
            let (run, phase, worked) = (ours.clone(), phase.clone(), body(ours.clone(), member));
            async move {
                let fail = |error: AppError| match (phase, run.course()) {
                    (Some(phase), _) => phase.fail(error),
                    (None, Some(course)) => course.fail(error.to_string()),
                    (None, None) => {}
                };
                worked.await.map_err(fail).ok()
            }
        };
        let cores = Cores::before();
        let (done, counted) = {
            let _measuring = stop::measuring(move |signal| ending.stop(signal));
            let body = cores.around(body);
            let run_all = || match (shown, run.course()) {
                (Some((title, extent, phase)), course) => {
                    let all = || self.run_phase(title, extent, phase, body);
                    match course {
                        Some(course) => self.together(course, all),
                        None => all(),
                    }
                }
                (None, Some(course)) => {
                    let done = self.run_course(course, body)?;
                    // Missing results follow from a failure.
                    course.failure().map_or(Ok(()), Err)?;
                    done.into_iter().map(|one| one.ok_or_else(AppError::lost)).collect()
                }
                (None, None) => Err(AppError::Failed("nothing ends the run".to_owned())),
            };
            self.metered(move |now| metered.part(now), run_all)
        };
        let done = done?;
        Ok(Ran { done, counted, conditions: cores.after(self)? })
    }
}

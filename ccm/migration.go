package ccm

import (
	"context"
	"fmt"

	"k8s.io/client-go/tools/leaderelection"
	cmconfig "k8s.io/controller-manager/config"
	"k8s.io/controller-manager/pkg/leadermigration"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/mooring-ccm/mooring/internal/election"
)

// migration is the second lease of --enable-leader-migration (KEP-2436). Controllers that move from one controller manager to
// another run under it in both, so during an upgrade only one of the two runs them. It is sought once the main lease is
// held, and the loss of either ends the process.
type migration struct {
	settings  cmconfig.GenericControllerManagerConfiguration
	lock      *election.Lock
	lifecycle *lifecycle
	// controllers admits the migrated controllers while the lease is held.
	controllers *startBarrier
	// fence is closed when the lease is lost.
	fence *fence
}

// NeedLeaderElection makes the manager start the search for the second lease on the holder of the first.
func (m *migration) NeedLeaderElection() bool { return true }

// Start seeks and holds the lease until ctx ends, and releases it when the migrated controllers have stopped.
func (m *migration) Start(ctx context.Context) error {
	ctx, cancel := m.fence.within(ctx)
	defer cancel()
	done, ok := m.lifecycle.controllers.begin(ctx)
	if !ok {
		return nil
	}
	defer done()
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock:          m.lock,
		LeaseDuration: m.settings.LeaderElection.LeaseDuration.Duration,
		RenewDeadline: m.settings.LeaderElection.RenewDeadline.Duration,
		RetryPeriod:   m.settings.LeaderElection.RetryPeriod.Duration,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(ctx context.Context) {
				log.FromContext(ctx).Info("Leader migration: migrated controllers may run", "lease", m.lock.Describe())
				m.controllers.open()
			},
			OnStoppedLeading: func() {},
		},
		ReleaseOnCancel: true,
		Name:            m.settings.LeaderMigration.LeaderName,
	})
	if err != nil {
		return fmt.Errorf("leader election for migrated controllers: %w", err)
	}
	electing, release := context.WithCancel(context.WithoutCancel(ctx))
	defer release()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		elector.Run(electing)
	}()
	select {
	case <-ended:
		m.fence.end(errMigrationLost) // the elector may give up before the lease is overdue
		return errMigrationLost
	case <-ctx.Done():
		m.controllers.drain()
		release()
		<-ended
		return nil
	}
}

// migrated splits the enabled controllers as the migration's configuration says: into controllers under the main lease,
// under the migration's, and of the other controller manager for now.
func migrated(settings cmconfig.GenericControllerManagerConfiguration, enabled []Controller) (
	under map[string]bool, here []Controller, elsewhere []string,
) {
	under = map[string]bool{}
	if !leadermigration.Enabled(&settings) {
		return under, enabled, nil
	}
	filter := leadermigration.NewLeaderMigrator(&settings.LeaderMigration, programName).FilterFunc
	for _, controller := range enabled {
		switch filter(controller.Name) {
		case leadermigration.ControllerUnowned:
			elsewhere = append(elsewhere, controller.Name)
			continue
		case leadermigration.ControllerMigrated:
			under[controller.Name] = true
		}
		here = append(here, controller)
	}
	return under, here, elsewhere
}

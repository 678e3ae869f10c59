package ccm

import (
	"context"
	"fmt"
	"os"
	"sync/atomic"

	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/mooring-ccm/mooring/internal/election"
	"github.com/mooring-ccm/mooring/internal/election/witness"
)

// asked says that this program asks whether it was started as a witness. Without that it must not start one: to run such a program once more
// would be to do whatever else it does.
var asked atomic.Bool

// RunWitness makes this process the witness of another one if it was started for that, and then returns true when it has done its part: main is
// to return. In any other process it returns false at once. Main calls it; a program that calls NewCommand instead may, before it does
// anything else. See --leader-elect-witness.
func RunWitness() bool {
	asked.Store(true)
	return witness.Run(connect)
}

// witness returns how a witness reaches the API server, nil if none is wanted or one could not outlive this process.
func (o *options) witness() *witness.Settings {
	if !o.leaderElectWitness || !o.Generic.LeaderElection.LeaderElect || !asked.Load() || !outlived(os.Getpid()) {
		return nil
	}
	return &witness.Settings{
		Kubeconfig: o.Generic.ClientConnection.Kubeconfig, Master: o.Master, Duration: o.Generic.LeaderElection.LeaseDuration.Duration,
	}
}

// outlived reports whether a child may outlive a process. When the first process of a PID namespace ends, such as that of a container, the
// kernel kills all others in there: pid_namespaces(7).
func outlived(pid int) bool { return pid != 1 }

// newWitness returns what starts the witness, nil if there is to be none.
func (c *config) newWitness(ctx context.Context) *witness.Supervisor {
	if c.witness == nil || !c.component.Generic.LeaderElection.LeaderElect {
		return nil
	}
	supervisor, err := witness.NewSupervisor(*c.witness)
	if err != nil {
		log.FromContext(ctx).Info("This system offers no witness: if this process is killed, the next leader waits until the lease has expired",
			"reason", err.Error())
		return nil
	}
	return supervisor
}

// addWitness has the witness of this process release its leases.
func (a *assembly) addWitness() error {
	if a.witness == nil {
		return nil
	}
	locks := []*election.Lock{a.lock}
	if a.migration != nil {
		locks = append(locks, a.migration.lock)
	}
	for _, lock := range locks {
		a.witness.Add(witness.Lease{Namespace: lock.LeaseMeta.Namespace, Name: lock.LeaseMeta.Name, Identity: lock.Identity()})
	}
	if err := a.manager.Add(a.witness); err != nil {
		return fmt.Errorf("adding the witness to the manager: %w", err)
	}
	return nil
}

package demo

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/mooring-ccm/mooring/cmd/mooring/internal/demo/scenario"
	"github.com/mooring-ccm/mooring/cmd/mooring/internal/words"
	"github.com/mooring-ccm/mooring/localcluster/netlab"
)

// failover kills the replica that leads.
func (r *rack) failover() section {
	var before netlab.Table
	return section{name: "failover", title: "The leader is killed", steps: []step{
		{
			name: "kill", title: "the leader gets SIGKILL, and the standby leads when the lease has run out", deadline: stepDeadline,
			run: func(ctx context.Context, s *environment) (detail string, err error) {
				if before, err = r.router.Table(ctx); err != nil {
					return "", err
				}
				return r.killLeader(ctx, s)
			},
		},
		{
			name: "kept", title: "the router's routes are as they were, and no request was lost", deadline: stepDeadline,
			run: func(ctx context.Context, _ *environment) (string, error) { return r.kept(ctx, before) },
		},
		{name: "back", title: "the killed replica is started again, and stands by", deadline: stepDeadline, run: startAgain},
	}}
}

func (r *rack) killLeader(ctx context.Context, s *environment) (string, error) {
	old, next := s.replicas[firstReplica], s.replicas[secondReplica]
	holder := ""
	if err := s.observed.await(ctx, func(v view) error { holder = v.holder; return nil }); err != nil {
		return "", err
	}
	r.killed = time.Now()
	if err := old.kill(); err != nil {
		return "", err
	}
	s.reportRole(old, scenario.Stopped)
	err := s.observed.await(ctx, func(v view) error {
		if v.holder == holder || v.holder == "" {
			return errNoHolder
		}
		return nil
	})
	if err != nil {
		return "", err
	}
	s.reportRole(next, scenario.Leader)
	return fmt.Sprintf("%s leads after %s; all the time it announced the same as the other", next.Name(), seconds(time.Since(r.killed))), nil
}

func (r *rack) kept(ctx context.Context, before netlab.Table) (string, error) {
	after, err := r.router.Table(ctx)
	if err != nil {
		return "", err
	}
	if !after.Equal(before) {
		return "", fmt.Errorf("the router had %v, and has %v", before, after)
	}
	if _, err := r.sent.settle(ctx); err != nil {
		return "", err
	}
	lost, all := r.sent.lost(r.killed)
	if len(lost) > 0 {
		return "", fmt.Errorf("%d of %d requests were lost, the first with: %s", len(lost), all, lost[0].err)
	}
	return fmt.Sprintf("%s; all of %s answered", words.Count(len(after), "route", "routes"), words.Count(all, "request was", "requests were")), nil
}

func startAgain(ctx context.Context, s *environment) (string, error) {
	again, err := s.startReplica(firstReplica)
	if err != nil {
		return "", err
	}
	if err := again.ready(ctx); err != nil {
		return "", err
	}
	s.reportRole(again, scenario.Standby)
	return fmt.Sprintf("%s, process %d", again.Name(), again.PID()), nil
}

// inventory has the dead machine scrapped.
func (r *rack) inventory() section {
	return section{name: "inventory", title: "A machine leaves", steps: []step{
		{
			name: "node", title: "the dead machine is taken out of the inventory, and its node is deleted", deadline: stepDeadline,
			run: r.scrap,
		},
		{name: "routes", title: "the router has lost the way to its pods, and no other", deadline: stepDeadline, run: r.awaitFewerRoutes},
	}}
}

func (r *rack) scrap(ctx context.Context, s *environment) (string, error) {
	gone := r.dead()
	began := time.Now()
	if err := r.writeConfig(s, r.living()); err != nil {
		return "", err
	}
	err := s.observed.await(ctx, func(v view) error {
		if v.nodes[gone.name] != nil {
			return fmt.Errorf("%s is there", gone.name)
		}
		return nil
	})
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%s is deleted after %s; the file was read again while everything ran", gone.name, seconds(time.Since(began))), nil
}

func (r *rack) awaitFewerRoutes(ctx context.Context, s *environment) (string, error) {
	want := 2 * (len(r.living()) + 1) // to the pods of each node, and to the Service, in both families
	err := r.awaitTable(ctx, func(table netlab.Table) error {
		for to, hops := range table {
			if slices.Contains(hops, r.dead().address(to)) {
				return fmt.Errorf("it sends %s to %s", to, r.dead().name)
			}
		}
		if len(table) != want {
			return fmt.Errorf("it has %d routes instead of %d", len(table), want)
		}
		return nil
	})
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("it has %d routes", want), nil
}

// dead is the machine that dies, and living are the others.
func (r *rack) dead() *machine     { return r.machines[machineCount-1] }
func (r *rack) living() []*machine { return r.machines[:machineCount-1] }

package demo

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/mooring-ccm/mooring/dev/demo/scenario"
)

// The names of the replicas.
const (
	firstReplica  = "ccm-a"
	secondReplica = "ccm-b"
)

// replicas starts the manager twice.
func replicas() section {
	return section{name: "replicas", title: "Replicas", steps: []step{
		{name: "leader", title: "the first replica holds the lease", deadline: stepDeadline, run: startLeader},
		{name: "standby", title: "the second replica stands by with warm caches", deadline: stepDeadline, run: startStandby},
	}}
}

var errNoHolder = errors.New("no replica holds the lease kube-system/" + leaseName)

func startLeader(ctx context.Context, s *environment) (string, error) {
	began := time.Now()
	leader, err := s.startReplica(firstReplica)
	if err != nil {
		return "", err
	}
	err = s.observed.await(ctx, func(v view) error {
		if v.holder == "" {
			return errNoHolder
		}
		return nil
	})
	if err != nil {
		return "", err
	}
	held := time.Since(began)
	s.reportRole(leader, scenario.Leader)
	if err := leader.ready(ctx); err != nil {
		return "", err
	}
	return fmt.Sprintf("%s, process %d, leads after %s; refreshes nodes every %s",
		leader.Name(), leader.PID(), seconds(held), statusFrequency), nil
}

func startStandby(ctx context.Context, s *environment) (string, error) {
	standby, err := s.startReplica(secondReplica)
	if err != nil {
		return "", err
	}
	if err := standby.ready(ctx); err != nil {
		return "", err
	}
	s.reportRole(standby, scenario.Standby)
	return fmt.Sprintf("%s, process %d, is ready", standby.Name(), standby.PID()), nil
}

// seconds writes a measured time as people read it.
func seconds(d time.Duration) string { return fmt.Sprintf("%.2f s", d.Seconds()) }

package demo

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/mooring-ccm/mooring/dev/demo/scenario"
	"github.com/mooring-ccm/mooring/dev/netlab"
	"github.com/mooring-ccm/mooring/internal/tool/words"
)

// upgrade replaces both replicas, as a rolling update does that goes by /readyz.
func (r *rack) upgrade() section {
	var before netlab.Table
	var began time.Time
	return section{name: "upgrade", title: "Mooring is upgraded", steps: []step{
		{
			name: "roll", title: "each replica gets SIGTERM, and its successor starts and is ready before the next one ends", deadline: 2 * stepDeadline,
			run: func(ctx context.Context, s *environment) (detail string, err error) {
				if before, err = r.router.Table(ctx); err != nil {
					return "", err
				}
				began = time.Now()
				return r.roll(ctx, s)
			},
		},
		{
			name: "kept", title: "the router's routes are as they were, and no request was lost", deadline: stepDeadline,
			run: func(ctx context.Context, _ *environment) (string, error) { return r.kept(ctx, before, began) },
		},
	}}
}

// roll replaces the leader, and then the other one, which leads by then.
func (r *rack) roll(ctx context.Context, s *environment) (string, error) {
	var took []string
	for i, name := range []string{firstReplica, secondReplica} {
		other := s.replicas[[]string{secondReplica, firstReplica}[i]]
		if err := handOver(ctx, s, s.replicas[name], other); err != nil {
			return "", err
		}
		began := time.Now()
		again, err := s.startReplica(name)
		if err != nil {
			return "", err
		}
		if err := again.ready(ctx); err != nil {
			return "", err
		}
		s.reportRole(again, scenario.Standby)
		took = append(took, fmt.Sprintf("%s %s", name, seconds(time.Since(began))))
	}
	return "ready after the start, with all routes handed over: " + strings.Join(took, ", "), nil
}

// handOver ends the replica that leads in order, and waits until the other one leads.
func handOver(ctx context.Context, s *environment, old, next *replica) error {
	holder := ""
	if err := s.observed.await(ctx, func(v view) error { holder = v.holder; return nil }); err != nil {
		return err
	}
	if err := old.terminate(); err != nil {
		return err
	}
	if err := old.ended(ctx); err != nil {
		return err
	}
	s.reportRole(old, scenario.Stopped)
	err := s.observed.await(ctx, func(v view) error {
		if v.holder == holder || v.holder == "" {
			return errNoHolder
		}
		return nil
	})
	if err == nil {
		s.reportRole(next, scenario.Leader)
	}
	return err
}

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
			run: func(ctx context.Context, _ *environment) (string, error) { return r.kept(ctx, before, r.killed) },
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

// kept returns an error if the router's routes are others than before, or a request was lost since.
func (r *rack) kept(ctx context.Context, before netlab.Table, since time.Time) (string, error) {
	after, err := r.router.Table(ctx)
	if err != nil {
		return "", err
	}
	if !after.Equal(before) {
		return "", fmt.Errorf("the router had %v, and has %v", before, after)
	}
	answered, rewritten := 0, 0
	for _, e := range r.all() {
		if _, err := e.sent.awaitAnswers(ctx); err != nil {
			return "", err
		}
		unanswered, all := e.sent.failed(since)
		lost := slices.DeleteFunc(slices.Clone(unanswered), r.whileRewritten)
		if len(lost) > 0 {
			return "", fmt.Errorf("%d of %d requests to %s were lost, the first with: %w", len(lost), all, e.name, lost[0].err)
		}
		answered, rewritten = answered+all-len(unanswered), rewritten+len(unanswered)
	}
	detail := fmt.Sprintf("%s; all of %s answered", words.Count(len(after), "route", "routes"), words.Count(answered, "request was", "requests were"))
	if rewritten > 0 {
		detail += fmt.Sprintf(", but for %d that came while FRR wrote its IPv6 routes anew", rewritten)
	}
	return detail, nil
}

// whileRewritten reports whether a request found no route at the moment in which FRR takes one of IPv6 out and writes it again as
// it was, which it does when the best of several equal paths goes.
func (r *rack) whileRewritten(one answer) bool {
	return r.kind == netlab.FRR && errors.Is(one.err, syscall.ENETUNREACH) && strings.Contains(one.err.Error(), "]:80")
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
	want := 2 * (len(r.living()) + len(r.all())) // to the pods of each node, and to the Services, in both families
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

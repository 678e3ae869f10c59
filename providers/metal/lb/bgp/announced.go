package bgp

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"

	"github.com/mooring-ccm/mooring/providers/metal/routing"
)

// served returns the names of the groups of these routers, sorted.
func (s *settings) served() []string {
	groups := map[string]bool{}
	for _, n := range s.neighbors {
		groups[n.session.group] = true
	}
	return slices.Sorted(maps.Keys(groups))
}

// update announces a table to each group, and remembers what was done. What cannot be announced to one group is announced to the
// others. Callers hold the lock.
func (s *Speaker) update(ctx context.Context, t routing.Table) error {
	s.behind = true
	encoder := newEncoder(&s.settings)
	var errs []error
	for _, group := range s.settings.served() {
		if err := s.updateGroup(ctx, group, t.For(group), encoder); err != nil {
			errs = append(errs, err)
		}
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	s.behind = false
	return nil
}

// complete reports whether each group of routers has been announced something, if only that there is nothing.
func (s *Speaker) complete() bool {
	return !slices.ContainsFunc(s.settings.served(), func(group string) bool { return s.announced[group] == nil })
}

// updateGroup announces a table to one group step by step.
func (s *Speaker) updateGroup(ctx context.Context, group string, t routing.Table, encoder *encoder) error {
	library := s.running.Load()
	if err := library.makeTable(ctx, group); err != nil {
		return fmt.Errorf("BGP: %w", err)
	}
	if s.announced[group] == nil {
		s.announced[group] = map[netip.Prefix]destination{}
	}
	steps := planRoutes(s.announced[group], t, s.settings.attributes)
	for i, step := range steps {
		if ctx.Err() != nil {
			return fmt.Errorf("BGP: announce the rest of a table, from step %d of %d: %w", i+1, len(steps), context.Cause(ctx))
		}
		if err := library.apply(group, step, encoder); err != nil {
			return fmt.Errorf("BGP: %w", err)
		}
		s.repetition.change()
		s.record(group, step)
	}
	return nil
}

// record remembers what a step has changed. Callers hold the lock.
func (s *Speaker) record(group string, done step) {
	if s.announced[group] == nil {
		s.announced[group] = map[netip.Prefix]destination{}
	}
	announced := s.announced[group]
	s.sessions.counted(group, func(t *tally) {
		for prefix, after := range done.after {
			t.change(prefix, announced[prefix], after)
		}
	})
	for prefix, after := range done.after {
		if len(after.hops) == 0 {
			delete(announced, prefix)
		} else {
			announced[prefix] = after
		}
	}
}

// clean empties the tables that no longer serve a router, and removes them. Callers hold the lock.
func (s *Speaker) clean(ctx context.Context) error {
	library, served := s.running.Load(), s.settings.served()
	var errs []error
	for _, group := range slices.Sorted(maps.Keys(s.announced)) {
		if slices.Contains(served, group) || library.serves(group) {
			continue
		}
		err := s.updateGroup(ctx, group, routing.Table{}, newEncoder(&s.settings))
		if err == nil {
			err = library.dropTable(ctx, group)
		}
		if err != nil {
			errs = append(errs, err)
			continue
		}
		delete(s.announced, group)
	}
	return errors.Join(errs...)
}

package bgp

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"

	"github.com/osrg/gobgp/v4/api"

	"github.com/mooring-ccm/mooring/providers/metal/routing"
)

// A group of routers that are announced other things than the rest has a table of its own in the library: a VRF (RFC 4364). The
// library chooses the best path of each table by itself, which is what a router without ADD-PATH gets. An export policy would
// choose among all paths first, and leave such a router with none when the best one is not for it. See ADR 69.

// tables are the tables of the library besides the one that it has anyhow.
type tables struct {
	// vrfs are their numbers, by group.
	vrfs map[string]uint32
	last uint32
	// of are the groups of the routers.
	of map[netip.Addr]string
}

func newTables() tables {
	return tables{vrfs: map[string]uint32{}, of: map[netip.Addr]string{}}
}

// makeTable makes the table of a group if it is not there yet.
func (l *library) makeTable(ctx context.Context, group string) error {
	if _, there := l.tables.vrfs[group]; there || group == "" {
		return nil
	}
	number := l.tables.last + 1
	target := []*api.RouteTarget{{Rt: &api.RouteTarget_TwoOctetAsSpecific{TwoOctetAsSpecific: &api.TwoOctetAsSpecificExtended{
		IsTransitive: true, SubType: routeTarget, LocalAdmin: number,
	}}}}
	distinguisher := &api.RouteDistinguisher{Rd: &api.RouteDistinguisher_TwoOctetAsn{
		TwoOctetAsn: &api.RouteDistinguisherTwoOctetASN{Assigned: number},
	}}
	request := &api.AddVrfRequest{Vrf: &api.Vrf{Name: group, Id: number, Rd: distinguisher, ImportRt: target, ExportRt: target}}
	if err := l.server.AddVrf(ctx, request); err != nil {
		return fmt.Errorf("make the table of the group of peer %s: %w", group, err)
	}
	l.tables.vrfs[group], l.tables.last = number, number
	return nil
}

// routeTarget is the sub-type of an extended community that is a route target (RFC 4360 section 4). Numbers of tables and their
// targets never leave the library.
const routeTarget = 2

// dropTable removes the table of a group without routers.
func (l *library) dropTable(ctx context.Context, group string) error {
	if _, there := l.tables.vrfs[group]; !there {
		return nil
	}
	if err := l.server.DeleteVrf(ctx, &api.DeleteVrfRequest{Name: group}); err != nil {
		return fmt.Errorf("remove the table of the group of peer %s: %w", group, err)
	}
	delete(l.tables.vrfs, group)
	return nil
}

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

// sentTo returns how many messages with routes were sent to the routers of a group whose sessions are up.
func (l *library) sentTo(group string) map[netip.Addr]uint64 {
	sent := l.sent()
	maps.DeleteFunc(sent, func(addr netip.Addr, _ uint64) bool { return l.tables.of[addr] != group })
	return sent
}

// serves reports whether a router is still served from the table of a group.
func (l *library) serves(group string) bool {
	for _, of := range l.tables.of {
		if of == group {
			return true
		}
	}
	return false
}

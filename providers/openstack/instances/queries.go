package instances

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/mooring-ccm/mooring/internal/message"
	"github.com/mooring-ccm/mooring/provider"
	"github.com/mooring-ccm/mooring/providers/openstack/session"
)

const (
	// pageSize is how many servers or ports a page holds. A service may give fewer.
	pageSize = 1000
	// maxPages bounds a list that does not end.
	maxPages = 1000
	// idsAtOnce is how many IDs a query names, so its URL has no more than 4 kB.
	idsAtOnce = 50
)

// link says that a list goes on. Its address is not used: the service chooses it, and often names another host. The next page is requested
// from the configured host.
type link struct {
	Rel string `json:"rel"`
}

func more(links []link) bool {
	return slices.ContainsFunc(links, func(l link) bool { return l.Rel == "next" })
}

// errNoList says that an answer is a success and holds no list. Taken for an empty one, every node would seem to be deleted.
var errNoList = errors.New("the answer holds no list")

// paged asks for pages until there are no more, and hands each to yield.
func paged[T any](ctx context.Context, get func(ctx context.Context, marker string) (page []T, goesOn bool, err error), id func(T) string, yield func([]T) error) error {
	seen, marker := map[string]bool{}, ""
	for range maxPages {
		page, goesOn, err := get(ctx, marker)
		if err != nil {
			return err
		}
		for _, one := range page {
			if id(one) == "" || seen[id(one)] {
				return fmt.Errorf("the list names %q twice, or without an ID: it cannot be complete", message.Line(id(one), 100))
			}
			seen[id(one)] = true
		}
		if err := yield(page); err != nil {
			return err
		}
		if !goesOn {
			return nil
		}
		if len(page) == 0 {
			return errors.New("the list goes on behind an empty page")
		}
		marker = id(page[len(page)-1])
	}
	return fmt.Errorf("the list does not end after %d pages", maxPages)
}

// listServers lists the servers of the project.
func (i *Instances) listServers(ctx context.Context, yield func([]server) error) error {
	get := func(ctx context.Context, marker string) ([]server, bool, error) { return i.serverPage(ctx, "", marker) }
	if err := paged(ctx, get, func(s server) string { return s.ID }, yield); err != nil {
		return fmt.Errorf("listing servers: %w", err)
	}
	return nil
}

// serverPage asks for the servers behind a marker, with a name if one is given.
func (i *Instances) serverPage(ctx context.Context, name, marker string) ([]server, bool, error) {
	query := url.Values{"limit": {strconv.Itoa(pageSize)}}
	if marker != "" {
		query.Set("marker", marker)
	}
	if name != "" {
		query.Set("name", "^"+regexp.QuoteMeta(name)+"$")
	}
	var answer struct {
		Servers *[]server `json:"servers"`
		Links   []link    `json:"servers_links"`
	}
	err := i.session.Do(ctx, func(ctx context.Context, clients *session.Clients) error {
		compute, err := clients.Compute(ctx)
		if err != nil {
			return err
		}
		return session.Get(ctx, compute, &answer, query, "servers", "detail")
	})
	if err == nil && answer.Servers == nil {
		err = errNoList
	}
	if err != nil {
		return nil, false, err
	}
	return *answer.Servers, more(answer.Links), nil
}

// getServer asks for one server. That it does not exist is believed of Nova alone.
func (i *Instances) getServer(ctx context.Context, id string) (server, error) {
	var answer struct {
		Server *server `json:"server"`
	}
	err := i.session.Do(ctx, func(ctx context.Context, clients *session.Clients) error {
		compute, err := clients.Compute(ctx)
		if err != nil {
			return err
		}
		return session.Get(ctx, compute, &answer, nil, "servers", id)
	})
	var said *session.AnswerError
	switch {
	case errors.As(err, &said) && said.Status == http.StatusNotFound && said.Kind == "itemNotFound":
		return server{}, provider.NotFound(err)
	case err != nil:
		return server{}, fmt.Errorf("asking for server %s: %w", id, err)
	case answer.Server == nil || !strings.EqualFold(answer.Server.ID, id):
		return server{}, fmt.Errorf("asking for server %s: the answer is about another, or none", id)
	case deleted(*answer.Server):
		return server{}, provider.NotFound(fmt.Errorf("server %s is %s", id, answer.Server.Status))
	}
	return *answer.Server, nil
}

// listPorts lists the ports that the project can see, or those of some servers.
func (i *Instances) listPorts(ctx context.Context, servers ...string) ([]port, error) {
	var all []port
	ask := func(of []string) error {
		get := func(ctx context.Context, marker string) ([]port, bool, error) { return i.portPage(ctx, of, marker) }
		return paged(ctx, get, func(p port) string { return p.ID }, func(page []port) error {
			all = append(all, page...)
			return nil
		})
	}
	if len(servers) == 0 {
		if err := ask(nil); err != nil {
			return nil, fmt.Errorf("listing ports: %w", err)
		}
		return all, nil
	}
	for some := range slices.Chunk(servers, idsAtOnce) {
		if err := ask(some); err != nil {
			return nil, fmt.Errorf("listing the ports of %d servers: %w", len(some), err)
		}
	}
	return all, nil
}

func (i *Instances) portPage(ctx context.Context, servers []string, marker string) ([]port, bool, error) {
	query := url.Values{"fields": portFields, "limit": {strconv.Itoa(pageSize)}}
	if marker != "" {
		query.Set("marker", marker)
	}
	if len(servers) > 0 {
		query["device_id"] = servers
	}
	var answer struct {
		Ports *[]port `json:"ports"`
		Links []link  `json:"ports_links"`
	}
	if err := i.getNetwork(ctx, &answer, query, "ports"); err != nil {
		return nil, false, err
	}
	if answer.Ports == nil {
		return nil, false, errNoList
	}
	return *answer.Ports, more(answer.Links), nil
}

// subPortNetworks adds what is needed of trunks: ports that are not known yet, and the names of their networks. Nothing is asked
// where there are no trunks.
func (i *Instances) subPortNetworks(ctx context.Context, known ports, of []server) error {
	var ids []string
	for _, one := range of {
		for _, sub := range known.subPorts(one.ID) {
			if _, named := known.networks[sub.NetworkID]; !named && !slices.Contains(ids, sub.NetworkID) {
				ids = append(ids, sub.NetworkID)
			}
		}
	}
	for some := range slices.Chunk(ids, idsAtOnce) {
		var answer struct {
			Networks []struct {
				ID   string `json:"id"`
				Name string `json:"name"`
			} `json:"networks"`
		}
		if err := i.getNetwork(ctx, &answer, url.Values{"id": some, "fields": {"id", "name"}}, "networks"); err != nil {
			return fmt.Errorf("listing the networks of trunks: %w", err)
		}
		for _, network := range answer.Networks {
			known.networks[network.ID] = network.Name
		}
	}
	return nil
}

func (i *Instances) getNetwork(ctx context.Context, answer any, query url.Values, path ...string) error {
	return i.session.Do(ctx, func(ctx context.Context, clients *session.Clients) error {
		network, err := clients.Network(ctx)
		if err != nil {
			return err
		}
		return session.Get(ctx, network, answer, query, path...)
	})
}

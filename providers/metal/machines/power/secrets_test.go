package power

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/mooring-ccm/mooring/dev/bmc/ipmitest"
	"github.com/mooring-ccm/mooring/dev/bmc/redfishsim"
	"github.com/mooring-ccm/mooring/dev/bmc/redfishtest"
	"github.com/mooring-ccm/mooring/dev/poll"
	"github.com/mooring-ccm/mooring/providers/metal/config"
)

// Whatever goes wrong with controllers, and even if they repeat what they were sent, no password gets into a log, a metric or an
// error.
func TestPasswordsAreNotLogged(t *testing.T) {
	echo := func(w http.ResponseWriter, r *http.Request) {
		username, password, _ := r.BasicAuth()
		w.WriteHeader(http.StatusInternalServerError)
		_, _ = fmt.Fprintf(w, `{"error":{"code":"%s %s","message":"%s"}}`, username, password, password)
	}
	garbled := func(w http.ResponseWriter, r *http.Request) {
		_, password, _ := r.BasicAuth()
		_, _ = fmt.Fprint(w, password)
	}
	passwordFile := file(t, secret)
	service := redfishsim.New("admin", "another", redfishsim.System{ID: "1"})
	refused, _ := redfishtest.Start(t, service)
	hanging := redfishsim.New("admin", secret, redfishsim.System{ID: "1"})
	defer hanging.Hang()()
	hangs, _ := redfishtest.Start(t, hanging)
	bmc := ipmitest.Start(t, "127.0.0.1", "another")
	var text strings.Builder
	fmt.Fprintf(&text, "apiVersion: %s\nkind: %s\npower: {interval: 1s, timeout: 300ms}\ninventory:\n", config.APIVersion, config.CloudConfigKind)
	fmt.Fprintf(&text, "  defaults: {bmc: {credentials: {username: admin, passwordFile: %s}}}\n  machines:\n", passwordFile)
	for i, address := range []string{
		"redfish: {insecureSkipVerify: true, auth: Basic, endpoint: " + newTLSServer(t, http.HandlerFunc(echo)),
		"redfish: {insecureSkipVerify: true, auth: Basic, endpoint: " + newTLSServer(t, http.HandlerFunc(garbled)),
		"redfish: {insecureSkipVerify: true, auth: Session, endpoint: " + newTLSServer(t, http.HandlerFunc(echo)),
		"redfish: {insecureSkipVerify: true, systemID: one, auth: Basic, endpoint: " + refused,
		"redfish: {insecureSkipVerify: true, systemID: two, auth: Session, endpoint: " + refused,
		"redfish: {insecureSkipVerify: true, systemID: one, auth: Session, endpoint: " + hangs,
		"redfish: {systemID: two, auth: Basic, endpoint: " + hangs,
		"ipmi: {address: " + `"` + bmc.Address + `"`,
	} {
		fmt.Fprintf(&text, "  - {name: n%d, addresses: [{address: 10.0.0.%d}], bmc: {%s}}}\n", i, i+1, address)
	}
	loaded, err := config.Read(strings.NewReader(text.String()), "")
	if err != nil {
		t.Fatal(err)
	}

	var mu sync.Mutex
	var logs strings.Builder
	log := funcr.New(func(prefix, args string) {
		mu.Lock()
		defer mu.Unlock()
		logs.WriteString(prefix + " " + args + "\n")
	}, funcr.Options{Verbosity: 100})
	registry := prometheus.NewRegistry()
	poller := NewPoller(Options{Registerer: registry})
	ctx, cancel := context.WithCancel(logr.NewContext(t.Context(), log))
	done := make(chan error, 1)
	go func() { done <- poller.Run(ctx, fixed{loaded}) }()
	failing := func() (errs []string) {
		for _, machine := range loaded.Inventory.Machines {
			if err := poller.Observe(machine.ID).Err; err != nil {
				errs = append(errs, fmt.Sprintf("%s: %v %+v", machine.Name, err, err))
			}
		}
		return errs
	}
	poll.Until(t, "all machines fail", func(context.Context) error {
		if failing := failing(); len(failing) < len(loaded.Inventory.Machines) {
			return fmt.Errorf("only these fail: %q", failing)
		}
		return nil
	})
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	var metrics strings.Builder
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		metrics.WriteString(family.String())
	}
	mu.Lock()
	defer mu.Unlock()
	for where, text := range map[string]string{
		"logs": logs.String(), "metrics": metrics.String(), "errors": strings.Join(failing(), "\n"),
	} {
		if strings.Contains(text, secret) || len(text) == 0 {
			t.Errorf("the %s hold the password, or nothing:\n%s", where, text)
		}
	}
	if lines := strings.Count(logs.String(), "does not report the power state"); lines != len(loaded.Inventory.Machines) {
		t.Errorf("%d controllers were logged as failing, want %d:\n%s", lines, len(loaded.Inventory.Machines), logs.String())
	}
}

// fixed is a config that does not change.
type fixed struct{ config *config.CloudConfig }

func (f fixed) Current() *config.CloudConfig                   { return f.config }
func (f fixed) Subscribe(func(*config.CloudConfig)) (c func()) { return func() {} }

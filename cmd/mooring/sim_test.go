package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"syscall"
	"testing"

	"github.com/mooring-ccm/mooring/dev/poll"
	"github.com/mooring-ccm/mooring/dev/programtest"
	"github.com/mooring-ccm/mooring/internal/tool/cli"
	"github.com/mooring-ccm/mooring/providers/sim/api"
	"github.com/mooring-ccm/mooring/providers/sim/cloudsim"
)

func write(t *testing.T, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// The cloud alone: its knobs come from flags, its tokens from files, its state survives a restart.
func TestSimServe(t *testing.T) {
	token, admin, state := write(t, "secret\n"), write(t, "boss\n"), filepath.Join(t.TempDir(), "cloud.db")
	args := []string{
		"sim", "serve", "--listen", "127.0.0.1:0", "--state-file", state, "--token-file", token, "--admin-token-file", admin,
		"--page-size", "3", "--quota-rate", "0.001", "--quota-burst", "6", "--fault", "operation=GetInstance,mode=status,status=503",
	}
	p := programtest.Start(t, append(args, "--instances", "5")...)
	client, boss := clients(t, p, token, admin)
	pages, found := 0, 0
	err := client.ListInstances(t.Context(), func(page []api.Instance) error { pages++; found += len(page); return nil })
	if err != nil || pages != 2 || found != 5 {
		t.Errorf("%d instances on %d pages, %v; want 5 on 2", found, pages, err)
	}
	if _, err := client.GetInstance(t.Context(), "i-00000001"); !api.HasCode(err, api.CodeUnavailable) {
		t.Errorf("the fault: %v", err)
	}
	if _, err := client.CreateInstance(t.Context(), cloudsim.DefaultInstance(6)); err != nil {
		t.Error(err)
	}
	counts, err := boss.Counts(t.Context())
	if err != nil || counts.Received() != 4 || counts.Operations[api.OpGetInstance].Faulted != 1 {
		t.Errorf("counts %+v, %v", counts, err)
	}
	for range 2 {
		if _, err := client.GetInstance(t.Context(), "i-00000001"); err != nil {
			t.Error(err)
		}
	}
	if _, err := client.GetInstance(t.Context(), "i-00000001"); !api.HasCode(err, api.CodeThrottled) {
		t.Errorf("above the quota: %v", err)
	}
	p.Signal(syscall.SIGTERM)
	if code := p.Exit(); code != cli.ExitOK {
		t.Errorf("exit code %d after SIGTERM", code)
	}

	p = programtest.Start(t, append(args, "--instances", "9")...) // ignored: the state file has a state
	client, _ = clients(t, p, token, admin)
	found = 0
	err = client.ListInstances(t.Context(), func(page []api.Instance) error { found += len(page); return nil })
	if err != nil || found != 6 {
		t.Errorf("%d instances after a restart, %v; want 6", found, err)
	}
	second := programtest.Start(t, args...)
	if code := second.Exit(); code != cli.ExitFailed {
		t.Errorf("exit code %d for a state file in use", code)
	}
	second.Await("another process has it open")
}

// clients finds out where a cloud serves, and returns clients of it.
func clients(t *testing.T, p *programtest.Program, token, admin string) (*api.Client, *api.Admin) {
	t.Helper()
	pattern := regexp.MustCompile(`address=(127\.0\.0\.1:\d+)`)
	var address string
	poll.Within(t, programtest.Patience, "it says where it serves", func(context.Context) error {
		match := pattern.FindStringSubmatch(p.Text())
		if match == nil {
			return errors.New(p.Text())
		}
		address = match[1]
		return nil
	})
	client, err := api.NewClient(api.ClientOptions{Endpoint: "http://" + address, Token: cloudsim.TokenFile(token)})
	if err != nil {
		t.Fatal(err)
	}
	boss, err := api.NewAdmin(api.ClientOptions{Endpoint: "http://" + address, Token: cloudsim.TokenFile(admin)})
	if err != nil {
		t.Fatal(err)
	}
	return client, boss
}

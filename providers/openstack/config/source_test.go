package config

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func open(t *testing.T, file string) *Source {
	t.Helper()
	opened, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = opened.Close() }()
	source, err := Open(opened)
	if err != nil {
		t.Fatal(err)
	}
	return source
}

// rewrite replaces a file in one moment, as the kubelet does it.
func rewrite(t *testing.T, file, text string) {
	t.Helper()
	if err := errors.Join(os.WriteFile(file+".new", []byte(text), 0o600), os.Rename(file+".new", file)); err != nil {
		t.Fatal(err)
	}
}

// A secret that has changed is taken without a restart; what is wrong, or decides which parts of the provider run, is not.
func TestSourceFollowsTheFile(t *testing.T) {
	file := write(t, "cloud.conf", minimal)
	synctest.Test(t, func(t *testing.T) {
		source, reports := open(t, file), []error{}
		ctx, cancel := context.WithCancel(t.Context())
		go func() { _ = source.Run(ctx, func(err error) { reports = append(reports, err) }) }()
		look := func(text string) {
			rewrite(t, file, text)
			time.Sleep(pollInterval + time.Second)
			synctest.Wait()
		}
		look(minimal)
		if len(reports) != 0 {
			t.Errorf("%v reported of a file that has not changed", reports)
		}
		rotated := strings.Replace(minimal, "s3cr3t#1", "n3w", 1)
		look(rotated)
		if got := source.Current().Global.ApplicationCredentialSecret; got != "n3w" || len(reports) != 1 || reports[0] != nil {
			t.Errorf("the secret is %q, reported %v", got.Reveal(), reports)
		}
		look("[Global]\n")
		look("[Global]\n")
		if source.Current().Global.Region != "RegionOne" || source.Failure() == nil || len(reports) != 2 || reports[1] == nil {
			t.Errorf("a broken file: %v, reported %v", source.Failure(), reports)
		}
		look(rotated + "[Route]\nrouter-id=r\n")
		if source.Current().Route.RouterID != "" || !strings.Contains(source.Failure().Error(), "[Route].router-id: Forbidden") {
			t.Errorf("a change of what runs: %v", source.Failure())
		}
		look(rotated)
		if source.Failure() != nil || len(reports) != 4 || reports[3] != nil {
			t.Errorf("%v, reported %v", source.Failure(), reports)
		}
		cancel()
		synctest.Wait()
	})
}

// object is a cloud config in the API server.
type object struct {
	*strings.Reader
	changes chan string
}

func (object) String() string { return "Secret kube-system/cloud" }

func (o object) Watch(ctx context.Context, changed func([]byte, error)) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case text := <-o.changes:
			if text == "" {
				changed(nil, errors.New("the Secret is gone"))
			} else {
				changed([]byte(text), nil)
			}
		}
	}
}

func TestSourceFollowsAnObject(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		from := object{strings.NewReader(minimal), make(chan string)}
		source, err := Open(from)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		go func() { _ = source.Run(ctx, nil) }()
		from.changes <- strings.Replace(minimal, "s3cr3t#1", "n3w", 1)
		synctest.Wait()
		from.changes <- ""
		synctest.Wait()
		if got := source.Current().Global.ApplicationCredentialSecret; got != "n3w" || source.Failure() == nil {
			t.Errorf("the secret is %q, failure %v; want the last that was there, and that it is gone", got.Reveal(), source.Failure())
		}
		cancel()
		synctest.Wait()
	})
}

func TestOpenNeedsAConfig(t *testing.T) {
	if _, err := Open(nil); err == nil || !strings.Contains(err.Error(), "--cloud-config") {
		t.Errorf("%v", err)
	}
}

func TestRegionalIsTakenFromTheEnvironment(t *testing.T) {
	for value, want := range map[string]bool{"true": true, "false": false, "": false} {
		t.Setenv(RegionalVariable, value)
		if got := mustParse(t, minimal).Regional; got != want {
			t.Errorf("%s=%q: regional %t", RegionalVariable, value, got)
		}
	}
}

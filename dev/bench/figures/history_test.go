package figures_test

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/mooring-ccm/mooring/dev/bench/figures"
)

func TestEntryKeepsWhatComparesReleases(t *testing.T) {
	measured := figures.Report{
		Began: time.Date(2030, 5, 6, 7, 8, 9, 0, time.UTC), Remark: "A remark.", Machine: figures.Machine{CPU: "fast", Cores: 2},
		Setup: figures.Setup{
			Kubernetes: "v1.37.2", Reference: "k8s.io/cloud-provider v0.37.2", Latency: 50 * time.Millisecond,
			Size: figures.Size{Nodes: 1000, ManyNodes: 5000, QuotaNodes: 600, Services: 200, QuotaRate: 20, Rounds: 3},
		},
		Results: []figures.Result{
			{Scenario: "join-1000", Variant: figures.ReferenceTuned, Seconds: 2, Complete: true},
			{
				Scenario: "join-1000", Variant: figures.MooringBulk, Seconds: 1.00049, Complete: true, CPUSeconds: 0.4999999, PeakBytes: 1 << 20,
				Calls:  map[string]figures.Calls{"a": {Received: 2, Refused: 1}, "b": {Received: 3}},
				Writes: map[string]int{"patch nodes": 7, "update nodes": 1},
			},
		},
	}
	data, err := figures.NewEntry(measured).Encode()
	if err != nil {
		t.Fatal(err)
	}
	got, err := figures.ParseEntry(data)
	if err != nil {
		t.Fatalf("%v:\n%s", err, data)
	}
	want := figures.Entry{
		Format: 1, Version: "next", Began: measured.Began, Remark: "A remark.", Machine: measured.Machine,
		Kubernetes: "v1.37.2", Reference: "k8s.io/cloud-provider v0.37.2", Latency: 50 * time.Millisecond,
		Size: figures.EntrySize{Nodes: 1000, ManyNodes: 5000, QuotaNodes: 600, Services: 200, QuotaRate: 20},
		Results: []figures.EntryResult{
			{Scenario: "join-1000", Variant: figures.ReferenceTuned, Seconds: 2, Complete: true},
			{
				Scenario: "join-1000", Variant: figures.MooringBulk, Seconds: 1, Complete: true, CPUSeconds: 0.5, PeakBytes: 1 << 20, Calls: 5,
				Writes: 8,
			},
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("entry (-want +got):\n%s", diff)
	}
	if lines := bytes.Count(data, []byte("\n    {\"scenario\":")); lines != len(want.Results) {
		t.Errorf("%d results stand in %d lines:\n%s", len(want.Results), lines, data)
	}
	if ratio, known := got.Ratio("join-1000", figures.MooringBulk); !known || ratio.Value != 0.5 {
		t.Errorf("the ratio is %v, %t", ratio, known)
	}
}

func TestParseEntryRefusesWhatItDoesNotKnow(t *testing.T) {
	for name, test := range map[string]struct{ data, want string }{
		"a later format":       {`{"format": 2, "version": "v0.1.0", "ratios": []}`, "format is 2, must be 1"},
		"no format":            {`{"version": "v0.1.0"}`, "format is 0, must be 1"},
		"an unknown field":     {`{"format": 1, "version": "v0.1.0", "ratios": []}`, `unknown field "ratios"`},
		"no version":           {`{"format": 1}`, `version is ""`},
		"a short version":      {`{"format": 1, "version": "v0.1"}`, `version is "v0.1"`},
		"a version without v":  {`{"format": 1, "version": "0.1.0"}`, `version is "0.1.0"`},
		"a version of a build": {`{"format": 1, "version": "v0.1.0+x"}`, `version is "v0.1.0+x"`},
		"no JSON":              {`figures`, "invalid character"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := figures.ParseEntry([]byte(test.data)); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error %v, want one that says %q", err, test.want)
			}
		})
	}
}

func TestEntriesAreInTheOrderOfTheirVersions(t *testing.T) {
	want := []string{"v0.2.0", "v0.9.0", "v0.10.0-rc.2", "v0.10.0-rc.10", "v0.10.0", "v0.10.1", "v1.0.0", "next"}
	for _, given := range [][]string{
		{"next", "v0.10.0", "v0.10.0-rc.10", "v0.10.0-rc.2", "v0.10.1", "v0.2.0", "v0.9.0", "v1.0.0"},
		{"v1.0.0", "v0.9.0", "v0.2.0", "v0.10.1", "v0.10.0-rc.2", "v0.10.0-rc.10", "v0.10.0", "next"},
	} {
		if diff := cmp.Diff(want, versions(sorted(given))); diff != "" {
			t.Errorf("order of %v (-want +got):\n%s", given, diff)
		}
	}
}

func sorted(names []string) []figures.Entry {
	var entries []figures.Entry
	for i, name := range names {
		entries = append(entries, figures.Entry{Version: name, Began: time.Unix(int64(i), 0)})
	}
	figures.SortEntries(entries)
	return entries
}

func versions(entries []figures.Entry) []string {
	var names []string
	for _, entry := range entries {
		names = append(names, entry.Version)
	}
	return names
}

func TestRecordReplacesTheNextEntryOnly(t *testing.T) {
	released := figures.Entry{Version: "v0.1.0", Began: time.Unix(1, 0)}
	old := figures.Entry{Version: figures.Next, Began: time.Unix(2, 0)}
	measured := figures.Entry{Version: figures.Next, Began: time.Unix(3, 0)}
	for name, test := range map[string]struct {
		entries []figures.Entry
		next    figures.Entry
		want    []figures.Entry
	}{
		"the first":            {nil, measured, []figures.Entry{measured}},
		"after a release":      {[]figures.Entry{released}, measured, []figures.Entry{released, measured}},
		"measured again":       {[]figures.Entry{released, old}, measured, []figures.Entry{released, measured}},
		"the release's itself": {[]figures.Entry{released}, figures.Entry{Began: released.Began}, []figures.Entry{released}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, figures.Record(test.entries, test.next)); diff != "" {
				t.Errorf("entries (-want +got):\n%s", diff)
			}
		})
	}
}

func TestDifferencesKeepRatiosApart(t *testing.T) {
	one := figures.Entry{Reference: "a v1", Size: figures.EntrySize{Nodes: 1000}, Latency: 1, Machine: figures.Machine{Cores: 2}}
	other := one
	other.Machine.Cores, other.Kubernetes = 64, "v1.40.0"
	if differ := one.Differences(other); len(differ) > 0 {
		t.Errorf("another machine: %v", differ)
	}
	other.Reference, other.Size.Nodes, other.Latency = "a v2", 20, 2
	if diff := cmp.Diff([]string{"another reference", "other sizes", "another latency"}, one.Differences(other)); diff != "" {
		t.Errorf("differences (-want +got):\n%s", diff)
	}
}

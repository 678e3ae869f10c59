package sim

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/mooring-ccm/mooring/provider"
	"github.com/mooring-ccm/mooring/providers/sim/api"
	"github.com/mooring-ccm/mooring/providers/sim/cloudsim"
)

func TestListIsCompleteOrAnError(t *testing.T) {
	for name, c := range map[string]struct {
		fault api.Fault
		// complete says that the list is what the cloud says, however wrong.
		complete bool
	}{
		"no fault":              {complete: true},
		"truncated first page":  {fault: api.Fault{Mode: api.FaultTruncate}},
		"truncated second page": {fault: api.Fault{Mode: api.FaultTruncate, Skip: 1}},
		"truncated last page":   {fault: api.Fault{Mode: api.FaultTruncate, Skip: 2}},
		"malformed page":        {fault: api.Fault{Mode: api.FaultMalformed, Skip: 1}},
		"missing next page":     {fault: api.Fault{Mode: api.FaultShortList, Skip: 1}},
		"empty second page":     {fault: api.Fault{Mode: api.FaultEmpty, Skip: 1}},
		"expired":               {fault: api.Fault{Mode: api.FaultStatus, Status: 410, Skip: 1}},
		"throttled":             {fault: api.Fault{Mode: api.FaultStatus, Status: 429, Skip: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			simulated, cloud := start(t, cloudsim.Options{Seed: cloudsim.DefaultSeed(5), Knobs: api.Knobs{PageSize: 2}})
			if !c.complete {
				c.fault.Operation, c.fault.Count = api.OpListInstances, 1
				if err := simulated.Service.AddFault(c.fault); err != nil {
					t.Fatal(err)
				}
			}
			got := 0
			err := cloud.Capabilities().ListInstances(t.Context(), func(page []provider.Instance) error { got += len(page); return nil })
			if (err == nil) != c.complete {
				t.Errorf("error %v, want a complete list: %v", err, c.complete)
			}
			if err == nil && got != 5 {
				t.Errorf("a list of %d without an error", got)
			}
		})
	}
}

// A cloud whose pages do not add up is caught, however it gets there.
func TestListThatDoesNotAddUp(t *testing.T) {
	const one = `{"id":"i-1","name":"a","state":"running"}`
	for name, pages := range map[string][]string{
		"no total":          {`{"items":[` + one + `]}`},
		"no items":          {`{"totalCount":0}`},
		"null":              {`null`},
		"a list":            {`[]`},
		"total too high":    {`{"items":[` + one + `],"totalCount":2}`},
		"total too low":     {`{"items":[` + one + `],"totalCount":0}`},
		"total changes":     {`{"items":[` + one + `],"totalCount":2,"nextPageToken":"1"}`, `{"items":[],"totalCount":1}`},
		"same page again":   {`{"items":[` + one + `],"totalCount":2,"nextPageToken":"0"}`},
		"endless":           {`{"items":[],"totalCount":2,"nextPageToken":"0"}`},
		"element with none": {`{"items":[{}],"totalCount":1}`},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				page := 0
				if r.URL.Query().Get("pageToken") == "1" {
					page = 1
				}
				_, _ = w.Write([]byte(pages[page]))
			}))
			t.Cleanup(server.Close)
			cloud := newCloud(t, configFor(t, server.URL, ""))
			if err := cloud.Capabilities().ListInstances(t.Context(), func([]provider.Instance) error { return nil }); err == nil {
				t.Error("the list was accepted")
			}
		})
	}
}

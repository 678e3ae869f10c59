package nodegroup

import (
	"encoding/json"
	"maps"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// FuzzRecord asserts that whatever stands in the annotation is understood as the same when it is written again, that no time is from the
// future, and that entries which are not understood are kept.
func FuzzRecord(f *testing.F) {
	for _, text := range []string{
		"", "{}", "null", "[]", `{"a":{"want":"Asleep","since":"2026-01-01T00:00:00Z","off":"2026-01-01T00:01:00Z","held":"fenced"}}`,
		`{"a":{"want":"Awake","waking":true,"cycle":"2999-01-01T00:00:00Z"},"b":{"want":"Gone"},"c":7,"d":{"want":"Asleep","waking":true}}`,
		`{"a":{"want":"Awake","since":"never"},"b":{"want":"Awake","since":"2026-01-01T00:00:00+23:59"}}`,
	} {
		f.Add(text)
	}
	now := time.Date(2026, 6, 1, 0, 0, 0, 0, time.UTC)
	f.Fuzz(func(t *testing.T, text string) {
		first, err := decode(text, now)
		if err != nil {
			return
		}
		for id, one := range first.intents {
			if one.Since.After(now) || one.Cycle.After(now) || one.Off.After(now) || one.Waking && one.Want != awake {
				t.Errorf("%s is %+v", id, one)
			}
		}
		written, err := first.encode()
		if err != nil {
			t.Fatalf("%q cannot be written: %v", text, err)
		}
		again, err := decode(written, now)
		if err != nil || !maps.EqualFunc(first.intents, again.intents, intent.same) || len(first.unreadable) != len(again.unreadable) {
			t.Errorf("%q is %+v, and that is %+v, %v", text, first, again, err)
		}
	})
}

// One entry that cannot be read concerns its machine alone, and stays as it is.
func TestUnreadableEntriesAreKept(t *testing.T) {
	read, err := decode(`{"a":{"want":"Asleep","off":"2026-01-01T00:00:00Z"},"b":{"want":7}}`, time.Now())
	if err != nil || !read.intents["a"].sleeps() || string(read.unreadable["b"]) != `{"want":7}` {
		t.Fatalf("%+v, %v", read, err)
	}
	text, err := read.with(changes{"c": {Want: awake}}, func(id string) bool { return id != "a" }).encode()
	if err != nil {
		t.Fatal(err)
	}
	var entries map[string]json.RawMessage
	if err := json.Unmarshal([]byte(text), &entries); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]string{"b": `{"want":7}`, "c": `{"want":"Awake"}`}, map[string]string{"b": string(entries["b"]), "c": string(entries["c"])}); diff != "" || len(entries) != 2 {
		t.Errorf("%s\n%s", text, diff)
	}
}

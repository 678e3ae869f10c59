package strict

import (
	"bytes"
	"encoding/json"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// maxErrorText is how long the text of one error may be, whatever the document holds.
const maxErrorText = 2000

// checkErrors asserts what holds for every error of a document: it names a field and says what is wrong, in one printable line of
// bounded length.
func checkErrors(t *testing.T, errs field.ErrorList) {
	t.Helper()
	for _, err := range errs {
		text := err.Error()
		if err.Field == "" || err.Type == field.ErrorTypeInternal {
			t.Errorf("the error names no field: %s", text)
		}
		if len(text) > maxErrorText || !utf8.ValidString(text) {
			t.Errorf("an error of %d bytes, valid %t: %.100q", len(text), utf8.ValidString(text), text)
		}
		for _, r := range text {
			if unicode.IsControl(r) {
				t.Errorf("the error has the control character %q: %q", r, text)
				break
			}
		}
	}
}

func addDocuments(f *testing.F) {
	for _, document := range []string{
		"", "# nothing\n", "{}", "[]", "null", "---\n---\n", "text: a\nwait: 5s\non: true\nrate: 1.5\nptr: {name: a, count: 3}\n",
		`{"text":"a","wait":"1m","list":[{"name":"x","count":1}],"map":{"a":"b"},"base":"c"}`, `{"text":1,"text":"a","x":null}`,
		"rate: .nan\n", "rate: .inf\n", "rate: 1e400\n", "ptr: {count: 0x10}\n", "ptr: {count: 1e3}\n", "ptr: {count: 99999999999999999999}\n",
		"a: &a [*a]\n", "<<: {text: a}\n", "? [a]\n: b\n", "text: !!binary aGk=\n", "text: !!int x\n", "\"a\\nb\": 1\n", "text: \"\\0\\x1b\"\n",
		"%YAML 1.1\n---\ntext: yes\n", "{\"a\":\"\xff\"}", "map: {1: a, 1.0: b}\n", "wait: 1000000h\n", "wait: null\n", "\"\": 1\n", `{"": 1}`,
	} {
		f.Add([]byte(document))
	}
}

func FuzzYAML(f *testing.F) {
	addDocuments(f)
	f.Fuzz(func(t *testing.T, data []byte) { checkDecoding(t, data, YAML) })
}

func FuzzJSON(f *testing.F) {
	addDocuments(f)
	f.Fuzz(func(t *testing.T, data []byte) { checkDecoding(t, data, JSON) })
}

// checkDecoding asserts that what is accepted is accepted again, and means the same, as either format.
func checkDecoding(t *testing.T, data []byte, decode func([]byte, any) field.ErrorList) {
	t.Helper()
	var first example
	errs := decode(data, &first)
	if checkErrors(t, errs); len(errs) > 0 {
		return
	}
	written, err := json.Marshal(first)
	if err != nil {
		t.Fatalf("%q was accepted and cannot be written: %v", data, err)
	}
	for name, format := range map[string]func([]byte, any) field.ErrorList{"YAML": YAML, "JSON": JSON} {
		if name == "YAML" && bytes.ContainsFunc(written, unicode.IsControl) {
			continue // JSON may have some characters as they are that YAML must escape
		}
		var again example
		if errs := format(written, &again); len(errs) > 0 {
			t.Errorf("%q was accepted, and %s as %s is not: %v", data, written, name, errs)
		}
		if diff := cmp.Diff(first, again, cmp.AllowUnexported(example{}), cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%q changes as %s (-first +again):\n%s", data, name, diff)
		}
	}
}

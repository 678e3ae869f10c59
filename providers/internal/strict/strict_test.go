package strict

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"pgregory.net/rapid"
)

type inner struct {
	Name  string `json:"name"`
	Count int32  `json:"count,omitempty"`
}

type embedded struct {
	Base string `json:"base,omitempty"`
}

type example struct {
	embedded
	Text  string            `json:"text,omitempty"`
	Wait  metav1.Duration   `json:"wait,omitzero"`
	On    bool              `json:"on,omitempty"`
	Rate  float64           `json:"rate,omitempty"`
	Ptr   *inner            `json:"ptr,omitempty"`
	List  []inner           `json:"list,omitempty"`
	Map   map[string]string `json:"map,omitempty"`
	Local string            `json:"-"`
}

func messages(errs field.ErrorList) []string {
	out := []string{}
	for _, e := range errs {
		out = append(out, e.Error())
	}
	return out
}

func TestAllErrorsAtOnce(t *testing.T) {
	const all = "base, list, map, on, ptr, rate, text, wait"
	cases := map[string]struct {
		decode func([]byte, any) field.ErrorList
		data   string
		want   []string
	}{
		"yaml": {YAML, "text: 12\nwait: soon\non: maybe\nrate: x\nptr: {nam: a, count: 3000000000}\nlist: [{name: [a]}, b]\n" +
			"map: {a: b, a: c, d: 1}\nother: 1\ntext: again\nLocal: x\nbase: {}\n", []string{
			`text: Invalid value: "12": must be a string, not an integer`,
			`wait: Invalid value: "soon": time: invalid duration "soon"`,
			`on: Invalid value: "maybe": must be a boolean, not a string`,
			`rate: Invalid value: "x": must be a number, not a string`,
			`ptr.nam: Invalid value: "a": unknown field; known here: count, name`,
			`ptr.count: Invalid value: "3000000000": is out of range`,
			`list[0].name: Invalid value: must be a string, not a list`,
			`list[1]: Invalid value: "b": must be a mapping, not a string`,
			`map[a]: Duplicate value: "c"`,
			`map[d]: Invalid value: "1": must be a string, not an integer`,
			`other: Invalid value: "1": unknown field; known here: ` + all,
			`text: Duplicate value: "again"`,
			`Local: Invalid value: "x": unknown field; known here: ` + all,
			`base: Invalid value: must be a string, not a mapping`,
		}},
		"json": {JSON, `{"text":1,"text":"a","wait":5,"ptr":{"count":1.5},"x":null}`, []string{
			`text: Invalid value: "1": must be a string, not an integer`,
			`text: Duplicate value: "a"`,
			`wait: Invalid value: "5": must be a string, not an integer`,
			`ptr.count: Invalid value: "1.5": must be an integer, not a number`,
			`x: Invalid value: "null": unknown field; known here: ` + all,
		}},
		"json cut off":   {JSON, `{"text":"a"`, []string{`(document): Invalid value: not JSON: the value is cut off`}},
		"json trailing":  {JSON, `{} {}`, []string{`(document): Invalid value: not JSON: there is something after the value`}},
		"yaml empty":     {YAML, "# nothing\n", []string{`(document): Invalid value: the document is empty`}},
		"yaml alias":     {YAML, "text: &a x\nbase: *a\n", []string{`(document): Invalid value: line 2: aliases are not supported`}},
		"yaml documents": {YAML, "text: a\n---\ntext: b\n", []string{`(document): Invalid value: there is more than one document`}},
		"yaml list":      {YAML, "- a\n", []string{`(document): Invalid value: must be a mapping, not a list`}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			var into example
			if diff := cmp.Diff(c.want, messages(c.decode([]byte(c.data), &into))); diff != "" {
				t.Errorf("errors (-want +got):\n%s", diff)
			}
		})
	}
}

func TestValid(t *testing.T) {
	want := example{
		embedded: embedded{Base: "yes"}, Text: "\U0001F600 2024-01-01", Wait: metav1.Duration{Duration: 1500e6}, On: true, Rate: 2,
		Ptr: &inner{Name: "p", Count: -1}, List: []inner{{Name: "a"}}, Map: map[string]string{"k": "v"},
	}
	sources := map[string]struct {
		decode func([]byte, any) field.ErrorList
		data   string
	}{
		"yaml": {YAML, "base: yes\ntext: \U0001F600 2024-01-01\nwait: 1.5s\non: true\nrate: 2\nptr: {name: p, count: -1}\nlist: [{name: a}]\nmap: {k: v}\n"},
		"json": {JSON, `{"base":"yes","text":"\ud83d\ude00 2024-01-01","wait":"1.5s","on":true,"rate":2,` +
			`"ptr":{"name":"p","count":-1},"list":[{"name":"a"}],"map":{"k":"v"}}`},
	}
	for name, s := range sources {
		t.Run(name, func(t *testing.T) {
			var got example
			if errs := s.decode([]byte(s.data), &got); len(errs) > 0 {
				t.Fatal(errs)
			}
			if diff := cmp.Diff(want, got, cmp.AllowUnexported(example{}, embedded{})); diff != "" {
				t.Errorf("decoded (-want +got):\n%s", diff)
			}
		})
	}
}

func TestWhatFitsIsDecoded(t *testing.T) {
	var got example
	if errs := YAML([]byte("text: a\non: maybe\nlist: [{name: b, count: x}]\nother: 1\n"), &got); len(errs) != 3 {
		t.Errorf("errors: %v", errs)
	}
	want := example{Text: "a", List: []inner{{Name: "b"}}}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(example{}, embedded{})); diff != "" {
		t.Errorf("decoded (-want +got):\n%s", diff)
	}
}

// Whatever arrives is decoded or refused; it never panics.
func TestAnyInput(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		data := rapid.StringMatching(`[\[\]{}:,"a-c1-3.&*<! \n-]{0,40}`).Draw(t, "data")
		_ = YAML([]byte(data), &example{})
		_ = JSON([]byte(data), &example{})
	})
}

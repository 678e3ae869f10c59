package secrets

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/mooring-ccm/mooring/dev/must"
)

// A value whose letters differ in each encoding.
const password = `p@ss"wörd/&+9`

// TestConfigs reads the configs of cloud providers in each of their formats.
func TestConfigs(t *testing.T) {
	inJSON, err := json.Marshal(map[string]any{"aadClientId": "public-id-of-a-client", "aadClientSecret": password})
	must.NoError(t, err)
	for name, config := range map[string]string{
		"YAML":                   "global:\n  user: administrator\n  password: 'p@ss\"wörd/&+9'\n",
		"YAML, deep in a list":   "vcenters:\n- {user: administrator, auth: {password: 'p@ss\"wörd/&+9'}}\n",
		"YAML, several":          "tokens: [x]\napi-token:\n- 'p@ss\"wörd/&+9'\n- another-one\n",
		"YAML, an alias":         "defaults: &p 'p@ss\"wörd/&+9'\npassword: *p\n",
		"YAML, a block":          "private-key: |\n  p@ss\"wörd/&+9\n",
		"JSON":                   string(inJSON),
		"INI":                    "[Global]\nuser = administrator\npassword = p@ss\"wörd/&+9\n",
		"INI, quoted":            "[Global]\r\npassword=\"p@ss\\\"wörd/&+9\" ; of 2026\r\n",
		"INI, with a comment":    "[Global]\npassword = p@ss\"wörd/&+9 # of 2026\n",
		"INI, without a section": "application-credential-secret = p@ss\"wörd/&+9",
	} {
		t.Run(name, func(t *testing.T) {
			s := New(nil)
			s.AddConfig([]byte(config))
			requireHidden(t, s, "login with "+password+" failed")
			for _, kept := range []string{"administrator", "public-id-of-a-client"} {
				if got := s.Hide(kept); got != kept {
					t.Errorf("%q becomes %q", kept, got)
				}
			}
		})
	}
}

func requireHidden(t *testing.T, s *Set, text string) {
	t.Helper()
	if got := s.Hide(text); got != "login with (hidden) failed" {
		t.Errorf("%q becomes %q", text, got)
	}
}

// TestForms finds a value however a text holds it.
func TestForms(t *testing.T) {
	s := New([]string{"HOME=/home/user", "HCLOUD_TOKEN=" + password, "broken"})
	inJSON, err := json.Marshal(password)
	must.NoError(t, err)
	for name, form := range map[string]string{
		"as it is": password, "quoted": strings.Trim(fmt.Sprintf("%q", password), `"`), "JSON": strings.Trim(string(inJSON), `"`),
		"query": url.QueryEscape(password), "path": url.PathEscape(password),
	} {
		t.Run(name, func(t *testing.T) { requireHidden(t, s, "login with "+form+" failed") })
	}
	for user := range 4 {
		for _, encoding := range []*base64.Encoding{base64.StdEncoding, base64.URLEncoding, base64.RawStdEncoding} {
			text := encoding.EncodeToString([]byte(strings.Repeat("u", user) + ":" + password))
			shown, _, found := strings.Cut(s.Hide(text), hidden)
			if decoded, _ := base64.RawStdEncoding.DecodeString(shown); !found || strings.Contains(string(decoded), password[:3]) {
				t.Errorf("a user of %d letters: %q becomes %q", user, text, s.Hide(text))
			}
		}
	}
	if got := s.Hide("/home/user"); got != "/home/user" {
		t.Errorf("what is no credential becomes %q", got)
	}
}

// TestNames tells credentials from what is about them.
func TestNames(t *testing.T) {
	for name, want := range map[string]bool{
		"password": true, "Password ": true, "aadClientSecret": true, "application-credential-secret": true, "HCLOUD_TOKEN": true, "AWS_SECRET_ACCESS_KEY": true,
		"api.key": true, "passwordFile": false, "secret-namespace": false, "accessKeyID": false, "tokenURL": false, "user": false, "key": false, "": false,
	} {
		if got := namesCredential(name); got != want {
			t.Errorf("%q: %t, want %t", name, got, want)
		}
	}
}

// TestShortValuesAreNotLookedFor, because each would take a word out of every text.
func TestShortValuesAreNotLookedFor(t *testing.T) {
	s := New([]string{"A_TOKEN=failed"})
	s.AddConfig([]byte("password: login\nsecret: ''\ntoken:\n"))
	if got, want := s.Hide("login with x failed"), "login with x failed"; got != want {
		t.Errorf("it becomes %q", got)
	}
}

// TestErrorsKeepWhatTheyAre: only the text is another one.
func TestErrorsKeepWhatTheyAre(t *testing.T) {
	s := New([]string{"A_TOKEN=" + password})
	refused := errors.New("denied")
	err := s.Bound(fmt.Errorf("token %s: %w", password, refused), 100)
	if err.Error() != "token (hidden): denied" || !errors.Is(err, refused) {
		t.Errorf("it is %q", err)
	}
	if plain := s.Bound(refused, 100); plain != refused {
		t.Errorf("an error without a value becomes %#v", plain)
	}
	if long := s.Bound(fmt.Errorf("%s %s", strings.Repeat("x", 95), password), 100); strings.Contains(long.Error(), password[:2]) || len(long.Error()) > 100 {
		t.Errorf("a value at the bound is cut before it is found: %q", long)
	}
	var none *Set
	if none.Bound(nil, 100) != nil || none.Bound(refused, 100) != refused || none.Hide(password) != password {
		t.Error("the set that is none replaces something")
	}
	none.AddConfig([]byte("password: " + password))
}

// TestLongTexts ends where it looks no further, without a part of a value.
func TestLongTexts(t *testing.T) {
	s := New([]string{"A_TOKEN=" + password})
	for before := most - len(password) - 1; before <= most+1; before++ {
		if got := s.Hide(strings.Repeat("x", before) + password + strings.Repeat("y", 100)); strings.Contains(got, password[:2]) || len(got) > most {
			t.Errorf("behind %d bytes: %d bytes that end with %q", before, len(got), got[len(got)-20:])
		}
	}
}

// TestAFileIsFollowed: what was in it before is still a credential.
func TestAFileIsFollowed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "cloud.yaml")
	s := New(nil)
	s.FollowFile(path) // which is not there yet
	for i := range versions + 3 {
		must.NoError(t, os.WriteFile(path+".new", fmt.Appendf(nil, "password: number-%02d\n", i), 0o600))
		must.NoError(t, os.Rename(path+".new", path))
		if got, want := s.Hide(fmt.Sprintf("number-%02d", i)), hidden; got != want {
			t.Fatalf("of version %d it becomes %q", i, got)
		}
	}
	if got := s.Hide("number-10 number-03 number-02"); got != "(hidden) (hidden) number-02" {
		t.Errorf("of the versions before: %q", got)
	}
	// In place, with a content of the same length.
	must.NoError(t, os.WriteFile(path, []byte("password: number-99\n"), 0o600))
	must.NoError(t, os.Chtimes(path, time.Time{}, time.Now().Add(time.Minute)))
	if got := s.Hide("number-99"); got != hidden {
		t.Errorf("of a file that is written in place: %q", got)
	}
	must.NoError(t, os.Remove(path))
	if got := s.Hide("number-99"); got != hidden {
		t.Errorf("of a file that is gone: %q", got)
	}
}

// FuzzCredentials reads configs in every format, and finds no text that keeps a value of a key that names a credential.
func FuzzCredentials(f *testing.F) {
	for _, config := range []string{
		"password: hunter2hunter2", "[Global]\npassword = \"hunter2\\\"hunter2\"", `{"token": ["hunter2hunter2"]}`, "a: &a [*a]", "a: &x {b: *x}", "- token: 0x7fffffffffffffff",
		"password: !!binary aGVsbG8gd29ybGQ=", "token: |\n  two\n  lines of it", "? password\n: hunter2hunter2", "password: &p hunter2hunter2\nsecret: *p",
	} {
		f.Add([]byte(config), "because of hunter2hunter2")
	}
	f.Fuzz(func(t *testing.T, config []byte, text string) {
		if len(config) > 1<<12 {
			return // the rest is the library's
		}
		s := New(nil)
		s.AddConfig(config)
		for _, value := range credentials(config) {
			value = strings.TrimSpace(value)
			if len(value) < shortest || strings.Contains(hidden, value) {
				continue
			}
			if got := s.Hide("<" + value + ">" + text); strings.HasPrefix(got, "<"+value+">") {
				t.Errorf("%q: %q is in %q", config, value, got)
			}
		}
	})
}

package image

import (
	"encoding/pem"
	"errors"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestCertificates(t *testing.T) {
	server := httptest.NewUnstartedServer(nil)
	server.StartTLS()
	defer server.Close()
	block := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	key := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: []byte("secret")})
	file := filepath.Join(t.TempDir(), "ca.pem")
	for name, c := range map[string]struct {
		content string
		want    string
	}{
		"with comments": {"# root 1\n" + string(block) + "# root 2\n" + string(block), ""},
		"empty":         {"", "holds no PEM certificate"},
		"a key":         {string(block) + string(key), "PEM block 2 is a PRIVATE KEY"},
		"broken":        {string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: []byte("x")})), "certificate 1: "},
	} {
		if err := os.WriteFile(file, []byte(c.content), 0o600); err != nil {
			t.Fatal(err)
		}
		from, count, content, err := Certificates(file)
		switch {
		case c.want == "" && (err != nil || from != file || count != 2 || string(content) != string(block)+string(block)):
			t.Errorf("%s: %d certificates of %s, %v:\n%s", name, count, from, err, content)
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%s: error %v, want one that says %q", name, err, c.want)
		}
	}
	if _, _, _, err := Certificates(filepath.Join(t.TempDir(), "none")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a file that is not there: %v", err)
	}
}

package power

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/bougou/go-ipmi/pkg/client"
	"github.com/bougou/go-ipmi/pkg/types"

	"github.com/mooring-ccm/mooring/providers/metal/config"
)

// defaultCipherSuites are those that authenticate, protect and encrypt, the better one first: HMAC-SHA256 and HMAC-SHA1, each with
// AES-CBC-128 (IPMI 2.0, table 22-20). Cipher suite 0, which asks for no password, is never used.
var defaultCipherSuites = []types.CipherSuiteID{17, 3}

// ipmi asks by IPMI 2.0. Each reading has a session of its own, as with ipmitool: controllers have few, forget them when they
// restart, and a session that is held would have to be kept alive.
type ipmi struct {
	config      config.IPMI
	credentials *config.Credentials
}

func newIPMI(c config.IPMI, credentials *config.Credentials) *ipmi { return &ipmi{c, credentials} }

// Read asks for the chassis status (IPMI 2.0, 28.2), which any user may.
func (i *ipmi) Read(ctx context.Context) (State, error) {
	login, err := readLogin(i.credentials)
	if err != nil {
		return Unknown, err
	}
	host, port := i.config.HostPort()
	if strings.Contains(host, ":") {
		host = "[" + host + "]" // the library joins host and port by itself
	}
	session, err := client.NewClient(host, port, login.username, login.password)
	if err != nil {
		return Unknown, fmt.Errorf("IPMI of %s: %w", i.config.Address, err)
	}
	suites := defaultCipherSuites
	if i.config.CipherSuite != 0 {
		suites = []types.CipherSuiteID{types.CipherSuiteID(i.config.CipherSuite)}
	}
	session.WithCipherSuiteID(suites...).WithMaxPrivilegeLevel(types.PrivilegeLevelUser).WithTimeout(time.Second)
	if err := session.Connect(ctx); err != nil {
		ended, cancel := context.WithCancel(ctx)
		cancel() // there is no session to end, only a socket
		_ = session.Close(ended)
		return Unknown, i.failed(ctx, "opening a session", err)
	}
	defer func() { _ = session.Close(ctx) }()
	status, err := session.GetChassisStatus(ctx)
	switch {
	case err != nil:
		return Unknown, i.failed(ctx, "asking for the chassis status", err)
	case status.PowerIsOn:
		return On, nil
	default:
		return Off, nil
	}
}

// failed says in one line what was tried. The library's text has a line for each cipher suite, and none of it is secret.
func (i *ipmi) failed(ctx context.Context, what string, err error) error {
	if ctx.Err() != nil {
		return fmt.Errorf("IPMI of %s, %s: no answer: %w", i.config.Address, what, ctx.Err())
	}
	var network *net.OpError
	if errors.As(err, &network) {
		return fmt.Errorf("IPMI of %s, %s: %w", i.config.Address, what, network)
	}
	text := strings.Join(strings.Fields(err.Error()), " ")
	if errors.Is(err, client.ErrRAKPAuthentication) || strings.Contains(text, client.ErrRAKPAuthentication.Error()) {
		return fmt.Errorf("IPMI of %s, %s: %w", i.config.Address, what, errCredentials)
	}
	return fmt.Errorf("IPMI of %s, %s: %s", i.config.Address, what, text)
}

// Close does nothing: each reading closes its session.
func (i *ipmi) Close(context.Context) error { return nil }

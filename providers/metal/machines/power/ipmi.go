package power

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/bougou/go-ipmi/pkg/client"
	"github.com/bougou/go-ipmi/pkg/command/chassis"
	"github.com/bougou/go-ipmi/pkg/types"

	"github.com/mooring-ccm/mooring/internal/message"
	"github.com/mooring-ccm/mooring/providers/metal/config"
)

// defaultCipherSuites authenticate, protect and encrypt, the better one first: HMAC-SHA256 and HMAC-SHA1, each with AES-CBC-128 (IPMI 2.0,
// table 22-20). Cipher suite 0, which asks for no password, is never used.
var defaultCipherSuites = []types.CipherSuiteID{17, 3}

// ipmi asks by IPMI 2.0. Each reading has a session of its own, as with ipmitool: controllers have few, forget them when they
// restart, and a session that is held would have to be kept alive.
type ipmi struct {
	config      config.IPMI
	credentials *config.Credentials
}

func newIPMI(c config.IPMI, credentials *config.Credentials) *ipmi { return &ipmi{c, credentials} }

// Read asks for the system's GUID (IPMI 2.0, 22.14) and the chassis status (28.2), which any user may.
func (i *ipmi) Read(ctx context.Context) (reading Reading, err error) {
	err = guarded(i, "reading the power state", func() error {
		reading, err = i.read(ctx)
		return err
	})
	return reading, err
}

func (i *ipmi) read(ctx context.Context) (Reading, error) {
	session, err := i.connect(ctx, i.credentials, types.PrivilegeLevelUser)
	if err != nil {
		return Reading{}, err
	}
	defer func() { _ = session.Close(ctx) }()
	system, err := i.system(ctx, session)
	if err != nil {
		return Reading{}, err
	}
	status, err := session.GetChassisStatus(ctx)
	switch {
	case err != nil:
		return Reading{}, i.failed(ctx, "asking for the chassis status", err)
	case status.PowerIsOn:
		return Reading{State: On, System: system}, nil
	default:
		return Reading{State: Off, System: system}, nil
	}
}

// system asks which system the controller manages.
func (i *ipmi) system(ctx context.Context, session *client.Client) (SystemUUID, error) {
	answer, err := session.GetSystemGUID(ctx)
	switch {
	case err == nil:
		return newSystemGUID(answer.GUID), nil
	case ctx.Err() == nil && withoutGUID(err):
		return SystemUUID{}, nil
	default:
		return SystemUUID{}, i.failed(ctx, "asking for the system GUID", err)
	}
}

// busy are the completion codes of controllers that may answer otherwise a moment later (IPMI 2.0, table 5-2): node busy, timeout,
// out of space, and initialization in progress.
var busy = []types.CompletionCode{0xc0, 0xc3, 0xc4, 0xd2}

// withoutGUID reports whether a controller has answered that it gives no GUID: by any completion code but those of one that is busy.
func withoutGUID(err error) bool {
	var refused *types.ResponseError
	return errors.As(err, &refused) && !slices.Contains(busy, refused.CompletionCode())
}

// connect opens a session, which the caller closes.
func (i *ipmi) connect(ctx context.Context, as *config.Credentials, privilege types.PrivilegeLevel) (*client.Client, error) {
	login, err := readLogin(as)
	if err != nil {
		return nil, err
	}
	host, port := i.config.HostPort()
	if strings.Contains(host, ":") {
		host = "[" + host + "]" // the library joins host and port by itself
	}
	session, err := client.NewClient(host, port, login.username, login.password)
	if err != nil {
		return nil, fmt.Errorf("IPMI of %s: %w", i.config.Address, err)
	}
	suites := defaultCipherSuites
	if i.config.CipherSuite != 0 {
		suites = []types.CipherSuiteID{types.CipherSuiteID(i.config.CipherSuite)}
	}
	session.WithCipherSuiteID(suites...).WithMaxPrivilegeLevel(privilege).WithTimeout(time.Second)
	session.WithUDPProxy(dialer{ctx, session})
	if err := session.Connect(ctx); err != nil {
		ended, cancel := context.WithCancel(ctx)
		cancel() // there is no session to end, only a socket
		_ = session.Close(ended)
		return nil, i.failed(ctx, "opening a session", err)
	}
	return session, nil
}

// chassisControls are the commands by which a change is made (IPMI 2.0, 28.3).
var chassisControls = map[change]chassis.ChassisControl{
	byForce: chassis.ChassisControlPowerDown, softly: chassis.ChassisControlSoftShutdown, turningOn: chassis.ChassisControlPowerUp,
}

// change asks for the GUID and changes the power in one session, as an operator.
func (i *ipmi) change(ctx context.Context, what change, systemUUID string) error {
	return guarded(i, what.String(), func() error { return i.control(ctx, what, systemUUID) })
}

func (i *ipmi) control(ctx context.Context, what change, systemUUID string) error {
	session, err := i.connect(ctx, i.credentials, types.PrivilegeLevelOperator)
	if err != nil {
		return err
	}
	defer func() { _ = session.Close(ctx) }()
	system, err := i.system(ctx, session)
	switch {
	case err != nil:
		return err
	case !system.Is(systemUUID):
		return ErrUnverified
	}
	if _, err := session.ChassisControl(ctx, chassisControls[what]); err != nil {
		return i.failed(ctx, what.String(), err)
	}
	return nil
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
	text := message.Line(err.Error(), maxComplaint)
	if errors.Is(err, client.ErrRAKPAuthentication) || strings.Contains(text, client.ErrRAKPAuthentication.Error()) {
		return fmt.Errorf("IPMI of %s, %s: %w", i.config.Address, what, errCredentials)
	}
	return fmt.Errorf("IPMI of %s, %s: %s", i.config.Address, what, text)
}

// maxComplaint is how many bytes of an error of the library are shown.
const maxComplaint = 500

// Close does nothing: each reading closes its session.
func (i *ipmi) Close(context.Context) error { return nil }

package x402

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// HeaderSignIn is the request header of a signed sign-in.
const HeaderSignIn = "SIGN-IN-WITH-X"

// signInWithX names the extension by which a wallet shows that it has paid before: it signs a message of
// CAIP-122 instead of a payment (x402's specification, extension sign-in-with-x).
const signInWithX = "sign-in-with-x"

// Bounds of a sign-in.
const (
	maxStatement = 512 // bytes
	maxSignInURI = 2048
	maxResources = 8
	maxSignIn    = 4 << 10 // bytes of the message
	// signInSlack bounds how old a sign-in may be when it is signed, and the difference of clocks.
	signInSlack = 5 * time.Minute
)

// ErrNoSignIn: the challenge offers no sign-in.
var ErrNoSignIn = errors.New("no sign-in is offered")

// SignIn is a message of CAIP-122 in the form of EIP-4361: a wallet tells one site that it is there. Only
// [Challenge.SignIn] makes one, so a signer that takes it cannot be made to sign another text.
type SignIn struct {
	info    signInInfo
	address Address
	chainID uint64
}

// signInInfo holds what the seller gave, and what goes back to it.
type signInInfo struct {
	Domain         string   `json:"domain"`
	Address        string   `json:"address"`
	Statement      string   `json:"statement,omitempty"`
	URI            string   `json:"uri"`
	Version        string   `json:"version"`
	ChainID        string   `json:"chainId"`
	Type           string   `json:"type"`
	Nonce          string   `json:"nonce"`
	IssuedAt       string   `json:"issuedAt"`
	ExpirationTime string   `json:"expirationTime,omitempty"`
	NotBefore      string   `json:"notBefore,omitempty"`
	RequestID      string   `json:"requestId,omitempty"`
	Resources      []string `json:"resources,omitempty"`
	Signature      string   `json:"signature"`
}

// OffersSignIn reports whether the seller mentions the extension sign-in-with-x.
func (c Challenge) OffersSignIn() bool {
	if c.Version != 2 || !isObject(c.Extensions) || !bytes.Contains(c.Extensions, []byte(signInWithX)) || !json.Valid(c.Extensions) {
		return false
	}
	raw, err := find(c.Extensions, signInWithX)
	return raw != nil && err == nil
}

// SignIn returns the sign-in that the seller offers to a wallet on a network. Its domain and its URIs
// must be of the site that the request went to. ErrNoSignIn, or an error that names the first field
// with which the message must not be signed.
func (c Challenge) SignIn(asked *url.URL, n Network, wallet Address, now time.Time) (SignIn, error) {
	if !c.OffersSignIn() {
		return SignIn{}, ErrNoSignIn
	}
	body, err := extension(c.Extensions, signInWithX)
	var info object
	if err == nil {
		info, err = infoOf(body)
	}
	if err != nil {
		return SignIn{}, fmt.Errorf("read sign-in: %w", err)
	}
	m := SignIn{address: wallet, chainID: n.ChainID}
	if err := m.read(info); err != nil {
		return SignIn{}, fmt.Errorf("read sign-in: %w", err)
	}
	if err := offersChain(body.value("supportedChains"), n.CAIP2()); err != nil {
		return SignIn{}, fmt.Errorf("read sign-in: %w", err)
	}
	m.info.ChainID, m.info.Type, m.info.Address = n.CAIP2(), signInType, wallet.String()
	if err := m.check(asked, now); err != nil {
		return SignIn{}, fmt.Errorf("check sign-in: %w", err)
	}
	return m, nil
}

// signInType is the only kind of signature that purser gives: personal_sign (EIP-191).
const signInType = "eip191"

// offersChain checks that the seller takes such signatures for a chain.
func offersChain(raw json.RawMessage, chain string) error {
	chains, err := elements(raw, maxAccepts)
	if err != nil {
		return fmt.Errorf("supportedChains: %w", err)
	}
	for _, raw := range chains {
		o, err := members(raw)
		if err != nil {
			return fmt.Errorf("supportedChains: %w", err)
		}
		id, _ := o.text("chainId")
		kind, _ := o.text("type")
		scheme, _ := o.text("signatureScheme")
		if id == chain && kind == signInType && (scheme == "" || scheme == signInType) {
			return nil
		}
	}
	return &FieldError{"supportedChains", "not " + chain + " by " + signInType}
}

func (m *SignIn) read(info object) error {
	if err := texts(info, map[string]*string{
		"domain": &m.info.Domain, "uri": &m.info.URI, "version": &m.info.Version, "nonce": &m.info.Nonce, "issuedAt": &m.info.IssuedAt,
	}); err != nil {
		return err
	}
	for key, target := range map[string]*string{
		"statement": &m.info.Statement, "expirationTime": &m.info.ExpirationTime, "notBefore": &m.info.NotBefore, "requestId": &m.info.RequestID,
	} {
		if info.value(key) == nil {
			continue
		}
		var err error // an empty text has a line of its own in the message
		if *target, err = info.required(key); err != nil {
			return err
		}
	}
	raw := info.value("resources")
	if raw == nil {
		return nil
	}
	list, err := elements(raw, maxResources)
	if err == nil && len(list) == 0 {
		err = errors.New("empty")
	}
	if err != nil {
		return fmt.Errorf("resources: %w", err)
	}
	for _, raw := range list {
		one, err := object{{"resources", raw}}.required("resources")
		if err != nil {
			return err
		}
		m.info.Resources = append(m.info.Resources, one)
	}
	return nil
}

// check checks the message as EIP-4361 has it, and that it is for the site that was asked.
func (m SignIn) check(asked *url.URL, now time.Time) error {
	site := siteName(asked)
	switch i := m.info; {
	case site == "" || i.Domain != site:
		return &FieldError{"domain", fmt.Sprintf("%s, and the request went to %s", printable(i.Domain), printable(site))}
	case !m.local(asked, i.URI):
		return &FieldError{"uri", "not of the site that the request went to"}
	case slices.ContainsFunc(i.Resources, func(uri string) bool { return !m.local(asked, uri) }):
		return &FieldError{"resources", "not of the site that the request went to"}
	case i.Version != "1":
		return &FieldError{"version", "not 1"}
	case len(i.Nonce) < 8 || len(i.Nonce) > 128 || strings.Trim(i.Nonce, alphanumeric) != "":
		return &FieldError{"nonce", "not 8 to 128 letters and digits"}
	case len(i.Statement) > maxStatement || strings.Trim(i.Statement, alphanumeric+" "+uriMarks) != "":
		return &FieldError{"statement", fmt.Sprintf("not up to %d of the characters that a sign-in may have", maxStatement)}
	case len(i.RequestID) > 128 || strings.Trim(i.RequestID, alphanumeric+"-._~!$&'()*+,;=:@") != "":
		return &FieldError{"requestId", "not up to 128 of the characters that a path may have"}
	}
	if err := m.checkTimes(now); err != nil {
		return err
	}
	if n := len(m.Text()); n > maxSignIn {
		return fmt.Errorf("%w: over %d bytes", ErrTooLarge, maxSignIn)
	}
	return nil
}

func (m SignIn) checkTimes(now time.Time) error {
	issued, err := signInTime(m.info.IssuedAt)
	if err != nil || now.Sub(issued).Abs() > signInSlack {
		return &FieldError{"issuedAt", "not a time within 5 minutes"}
	}
	if text := m.info.ExpirationTime; text != "" {
		if at, err := signInTime(text); err != nil || !now.Before(at) {
			return &FieldError{"expirationTime", "not a time to come"}
		}
	}
	if text := m.info.NotBefore; text != "" {
		if at, err := signInTime(text); err != nil || now.Before(at) {
			return &FieldError{"notBefore", "not a time in the past"}
		}
	}
	return nil
}

// Characters of EIP-4361: uriMarks are those of URIs beside letters, digits and %.
const (
	alphanumeric = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
	uriMarks     = "-._~:/?#[]@!$&'()*+,;="
)

// signInTime reads a time of RFC 3339. It has no room for another line of the message.
func signInTime(text string) (time.Time, error) {
	if len(text) > 40 {
		return time.Time{}, errors.New("too long")
	}
	return time.Parse(time.RFC3339, text)
}

// local reports whether a URI is of the site that was asked.
func (SignIn) local(asked *url.URL, uri string) bool {
	if len(uri) > maxSignInURI || strings.Trim(uri, alphanumeric+uriMarks+"%") != "" {
		return false
	}
	u, err := url.Parse(uri)
	return err == nil && u.User == nil && u.Opaque == "" && u.Scheme == asked.Scheme && siteName(u) == siteName(asked)
}

// siteName returns host and port of a URL as browsers write them: in lower case, without the port that
// the scheme has anyway. "" is no site.
func siteName(u *url.URL) string {
	host, port := strings.ToLower(u.Hostname()), u.Port()
	if host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return ""
	}
	if addr, err := netip.ParseAddr(host); err == nil && addr.Is6() {
		host = "[" + addr.String() + "]"
	}
	if port == "" || u.Scheme == "https" && port == "443" || u.Scheme == "http" && port == "80" {
		return host
	}
	return host + ":" + port
}

// Address returns the wallet that signs in.
func (m SignIn) Address() Address { return m.address }

// Nonce returns the seller's nonce.
func (m SignIn) Nonce() string { return m.info.Nonce }

// Text returns the message as EIP-4361 writes it.
func (m SignIn) Text() string {
	i := m.info
	var b strings.Builder
	fmt.Fprintf(&b, "%s wants you to sign in with your Ethereum account:\n%s\n\n", i.Domain, m.address)
	if i.Statement != "" {
		b.WriteString(i.Statement + "\n")
	}
	fmt.Fprintf(&b, "\nURI: %s\nVersion: %s\nChain ID: %d\nNonce: %s\nIssued At: %s", i.URI, i.Version, m.chainID, i.Nonce, i.IssuedAt)
	for _, line := range []struct{ name, value string }{
		{"Expiration Time", i.ExpirationTime}, {"Not Before", i.NotBefore}, {"Request ID", i.RequestID},
	} {
		if line.value != "" {
			fmt.Fprintf(&b, "\n%s: %s", line.name, line.value)
		}
	}
	if len(i.Resources) > 0 {
		b.WriteString("\nResources:\n- " + strings.Join(i.Resources, "\n- "))
	}
	return b.String()
}

// Digest returns the hash that gets signed. Its prefix (EIP-191) keeps it apart from transactions and
// from EIP-712, so a signature of it moves no money.
func (m SignIn) Digest() [32]byte {
	text := m.Text()
	return [32]byte(Keccak256([]byte("\x19Ethereum Signed Message:\n" + strconv.Itoa(len(text)) + text)))
}

// Header returns the value of HeaderSignIn.
func (m SignIn) Header(s Signature) (string, error) {
	proof := m.info
	proof.Signature = s.String()
	text, err := json.Marshal(proof)
	if err != nil {
		return "", fmt.Errorf("encode sign-in: %w", err)
	}
	return base64.StdEncoding.EncodeToString(text), nil
}

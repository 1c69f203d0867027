package proxy

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
)

// HandshakeError reports that an upstream was reached, and that TLS with it failed.
type HandshakeError struct {
	Host string
	Err  error
	// AskedForCertificate: the upstream has asked for a certificate of its client before, and got none.
	AskedForCertificate bool
}

func (e *HandshakeError) Error() string { return fmt.Sprintf("TLS with %s: %v", e.Host, e.Err) }
func (e *HandshakeError) Unwrap() error { return e.Err }

const (
	wordsNoCipher = "The upstream has refused the TLS handshake. It may have no cipher in common with purser, which speaks TLS 1.2 and 1.3 " +
		"with forward secrecy (ECDHE) and not the RSA key exchange of old servers"
	wordsCertificate = "The upstream's TLS wants a certificate of its client"
	wordsOldVersion  = "The upstream speaks an older TLS than purser does, which begins with TLS 1.2"
)

// failedHandshake tells the client why TLS with an upstream failed; "" for another failure. Doors whose
// transports make connections themselves have errors that tell no more than their text does.
func failedHandshake(err error) string {
	var (
		failed *HandshakeError
		alert  *net.OpError
		header tls.RecordHeaderError
	)
	text := err.Error()
	switch {
	case errors.As(err, &header), errors.Is(err, http.ErrSchemeMismatch):
		return "The upstream does not speak TLS on this port"
	case errors.As(err, &failed) && failed.AskedForCertificate:
		return wordsCertificate
	case errors.As(err, &alert) && alert.Op == "remote error": // as crypto/tls tells of alerts
		return refusedHandshake(alert.Err.Error())
	case strings.Contains(text, "tls: server selected unsupported protocol version"):
		return wordsOldVersion
	case strings.Contains(text, "tls: server chose an unconfigured cipher suite"):
		return wordsNoCipher
	case strings.Contains(text, "TLS handshake timeout"), errors.As(err, &failed) && timedOut(err):
		return "The TLS handshake with the upstream did not end in time"
	case errors.As(err, &failed):
		return "The TLS handshake with the upstream failed: the connection broke off"
	case strings.Contains(text, "tls: "):
		return "The TLS handshake with the upstream failed"
	}
	return ""
}

// refusedHandshake tells of the alert (RFC 8446 §6) with which an upstream has ended a handshake, by the words of
// crypto/tls.
func refusedHandshake(alert string) string {
	switch alert = strings.TrimPrefix(alert, "tls: "); alert {
	case "handshake failure", "insufficient security level":
		return wordsNoCipher
	case "protocol version not supported":
		return wordsOldVersion
	case "unrecognized name":
		return "The upstream's TLS knows no site of this name"
	case "certificate required", "bad certificate":
		return wordsCertificate
	case "internal error":
		return "The upstream's TLS has failed by a fault of its own, or knows no site of this name"
	}
	return "The upstream has refused the TLS handshake: " + alert
}

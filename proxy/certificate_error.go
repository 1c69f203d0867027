package proxy

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"time"
)

// whyUntrusted tells the client what is wrong with an upstream's certificate.
func whyUntrusted(failed *tls.CertificateVerificationError) string {
	var (
		invalid   x509.CertificateInvalidError
		otherHost x509.HostnameError
		unknown   x509.UnknownAuthorityError
		leaf      = failed.UnverifiedCertificates[0]
	)
	switch {
	case errors.As(failed.Err, &invalid) && invalid.Reason == x509.Expired:
		cert := invalid.Cert
		whose := ""
		if !cert.Equal(leaf) {
			whose = "is signed by one that "
		}
		if time.Now().After(cert.NotAfter) {
			return whose + "expired on " + cert.NotAfter.UTC().Format(time.RFC3339)
		}
		return whose + "is not valid before " + cert.NotBefore.UTC().Format(time.RFC3339)
	case errors.As(failed.Err, &otherHost):
		return "is for another host"
	case bytes.Equal(leaf.RawIssuer, leaf.RawSubject):
		return "is self-signed"
	case errors.As(failed.Err, &unknown):
		return "is signed by an authority that is not trusted"
	}
	return "is not valid"
}

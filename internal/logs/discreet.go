// Package logs keeps what others say out of log lines, tells lines which payment they belong to, and
// follows the outputs of the newest configuration.
package logs

import (
	"regexp"
	"strings"
)

// Sellers, facilitators and RPCs are quoted in logs, spans and events, and they may say back
// what they were sent: the request's URL, the payment header, its signature.

const (
	// longestWord is the shortest run of letters and digits that counts as encoded. A transaction's hash has 66, a signature 132.
	longestWord = 80
	cutOut      = "…"
)

var (
	// encoded is hexadecimal, base64 or base64url. Without its slash, paths are none.
	encoded  = regexp.MustCompile(`[A-Za-z0-9+_-]{80,}=*`)
	query    = regexp.MustCompile(`\?[^\s"'<>]+`)
	userinfo = regexp.MustCompile(`//[^\s/?#"'@]+@`)
)

// Discreet removes from a text the queries and userinfo of URLs, and words as long as a payment
// header or a signature.
func Discreet(text string) string {
	if strings.IndexByte(text, '?') >= 0 {
		text = query.ReplaceAllLiteralString(text, "?"+cutOut)
	}
	if strings.IndexByte(text, '@') >= 0 {
		text = userinfo.ReplaceAllLiteralString(text, "//"+cutOut+"@")
	}
	if len(text) >= longestWord {
		text = encoded.ReplaceAllLiteralString(text, cutOut)
	}
	return text
}

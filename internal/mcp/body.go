package mcp

import (
	"encoding/base64"
	"fmt"
	"mime"
	"net/http"
	"slices"
	"strings"
	"unicode/utf8"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// read reads the body of an answer into f, at most n bytes. An image is returned beside it, because
// models can look at images.
func (f *fetched) read(resp *http.Response, n int) (*sdk.ImageContent, error) {
	content, cut, err := readBody(resp.Body, n)
	if err != nil {
		return nil, err
	}
	media, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	if cut {
		f.Note = fmt.Sprintf("the body is longer than %d bytes, and was cut there", n)
		if resp.ContentLength > 0 {
			f.Note = fmt.Sprintf("the body has %d bytes, and was cut after %d", resp.ContentLength, n)
		}
		// Not within a character.
		for i := 0; i < utf8.UTFMax-1 && len(content) > 0 && !utf8.Valid(content[max(0, len(content)-utf8.UTFMax):]); i++ {
			content = content[:len(content)-1]
		}
	}
	switch {
	case len(content) == 0:
	case isText(media) || utf8.Valid(content):
		f.Body = strings.ToValidUTF8(string(content), "\ufffd")
	case cut:
		f.Note = "the body is not text and too long to be passed on: " + f.Note
	case slices.Contains([]string{"image/png", "image/jpeg", "image/gif", "image/webp"}, media):
		f.Note = fmt.Sprintf("the body is an image of %d bytes, which is beside this text", len(content))
		return &sdk.ImageContent{MIMEType: media, Data: content}, nil
	default:
		f.Note = fmt.Sprintf("the body is not text: %d bytes, as base64", len(content))
		f.BodyBase64 = base64.StdEncoding.EncodeToString(content)
	}
	return nil, nil
}

func isText(media string) bool {
	return strings.HasPrefix(media, "text/") || strings.HasSuffix(media, "+json") || strings.HasSuffix(media, "+xml") ||
		slices.Contains([]string{
			"application/json", "application/xml", "application/javascript", "application/x-ndjson", "application/x-www-form-urlencoded",
		}, media)
}

# Brings the file $FILE from $URL, unless it is there and has the checksum $SHA256. $TOKEN, if there is one, goes along as
# a bearer token. Several may run at once on one volume: each writes a file of its own and moves it in place.
checked=$FILE.sha256
if [ -f "$FILE" ] && [ "$(cat "$checked" 2>/dev/null)" = "$SHA256" ]; then
  echo "$FILE is there."
  exit 0
fi
mkdir -p "$(dirname "$FILE")"
part=$FILE.part-$(hostname)
trap 'rm -f "$part"' EXIT
if [ -n "${TOKEN:-}" ]; then
  printf 'header = "Authorization: Bearer %s"\n' "$TOKEN"
fi | curl --config - --fail --location --silent --show-error --retry 10 --retry-connrefused --output "$part" "$URL"
if ! echo "$SHA256  $part" | sha256sum -c - >/dev/null 2>&1; then
  echo "What $URL gives has another checksum than $SHA256: $(sha256sum "$part" | cut -d' ' -f1)." >&2
  exit 1
fi
mv "$part" "$FILE"
echo "$SHA256" >"$checked"
echo "$FILE has come."

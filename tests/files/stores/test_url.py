"""Addresses: one spelling, no secrets, ranges, and their places in the cache."""

import pytest

from ttl_mm.errors import UserError
from ttl_mm.files.stores.url import (
    as_given,
    clean_url,
    expand_ranges,
    hide_secrets,
    is_url,
    place_of,
    url_of,
)


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv('TTL_STORE_CACHE', str(tmp_path / 'cache'))
    return tmp_path / 'cache'


def test_an_address_has_one_spelling_and_one_place(cache):
    assert clean_url('HTTPS://Host:8/a//b/') == 'https://host:8/a/b'
    assert clean_url('gcs://Bucket/a') == 'gs://Bucket/a'
    assert place_of('s3://b/x.tar') == cache / 's3' / 'b' / 'x.tar'
    assert url_of(cache / 's3' / 'b' / 'x.tar') == 's3://b/x.tar'
    assert [url_of(cache / 's3'), url_of(cache.parent / 'x')] == [None, None]
    assert [as_given('photos'), as_given(cache / 's3' / 'b')] == ['photos', 's3://b']
    assert list(map(is_url, ['s3://b', 'ttl_mm://net', '/s3://b'])) == [True, False, False]


@pytest.mark.parametrize(
    'url', ['https://me:secret@h/x', 'https://h/x?token=secret', 's3://b/x#secret']
)
def test_an_address_with_keys_is_refused_without_naming_them(url):
    with pytest.raises(UserError, match='no user name, password or query') as refused:
        clean_url(url)
    assert 'secret' not in str(refused.value)


def test_an_address_does_not_lead_out_of_the_cache():
    for url in ('s3://', 's3://../x', 'https://h/a/../../x', 'https://./x', 's3://b/./x'):
        with pytest.raises(UserError, match='is no address'):
            clean_url(url)
    with pytest.raises(UserError, match='line break'):
        place_of('s3://b/a\nb')


def test_a_name_leaves_room_for_the_files_beside_it():
    place_of(f's3://b/{"ü" * 100}/x.tar')
    with pytest.raises(UserError, match='a name of 202 bytes is too long for the cache'):
        place_of(f's3://b/x/{"ü" * 99}.tar')


def test_ranges_stand_for_every_number_with_its_zeros():
    assert list(expand_ranges('x-{08..10}.tar')) == ['x-08.tar', 'x-09.tar', 'x-10.tar']
    assert list(expand_ranges('{0..1}/{0..1}')) == ['0/0', '0/1', '1/0', '1/1']
    assert list(expand_ranges('x.tar')) == ['x.tar']
    for text, total in (('{2..1}', 0), ('{0..999999}{0..9}', 10_000_000)):
        with pytest.raises(UserError, match=f'stands for {total} archives'):
            list(expand_ranges(text))


def test_secrets_in_the_text_of_an_error_are_hidden():
    text = "GET 'https://u:secret@h/a.tar?X-Sig=secret' and s3://b/c, 12"
    assert hide_secrets(text) == "GET 'https://h/a.tar?...' and s3://b/c, 12"
